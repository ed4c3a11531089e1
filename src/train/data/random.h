// Random numbers that are the same on every machine and in every year: SplitMix64
// (https://doi.org/10.1145/2714064.2660195), seeded by any list of numbers.
//
//   Random random({seed, epoch, family});
//   random.shuffle(order);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace musacoder::train {

class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> seeds) {
    for (const std::uint64_t seed : seeds) {
      state_ ^= seed;
      state_ = next();
    }
  }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1; n below 2^32. The bias of the multiplication is below n / 2^32.
  std::uint64_t below(std::uint64_t n) { return ((next() >> 32) * n) >> 32; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace musacoder::train
