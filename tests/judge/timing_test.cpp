#include "judge/timing.h"

#include <gtest/gtest.h>

namespace musacoder::judge {
namespace {

TEST(Timing, Summaries) {
  const TimeSamples odd = summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.mean, 2);
  EXPECT_EQ(odd.ms, (std::vector<double>{3, 1, 2}));   // in the order measured
  EXPECT_EQ(summarize({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(summarize({7}).p90, 7);
  EXPECT_EQ(summarize({}).median, 0);
}

TEST(Timing, EventsAreBoundedByTheOuterClock) {
  // Ten calls of 5 ms with 0.5 ms beside each, and a hand-over's own cost.
  EXPECT_TRUE(events_are_plausible(50, 56, 5));
  // The same by a busy host.
  EXPECT_TRUE(events_are_plausible(50, 90, 5));
  // Events that claim a tenth of it.
  EXPECT_FALSE(events_are_plausible(5, 56, 5));
  // Microseconds: what lies beside hides them, and nothing is held against anybody.
  EXPECT_TRUE(events_are_plausible(0.05, 6, 5));
  EXPECT_TRUE(events_are_plausible(0, 1, 0));
}

}  // namespace
}  // namespace musacoder::judge
