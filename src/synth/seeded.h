// Choices drawn from a seed, the same on every machine and with every compiler (std::uniform_int_distribution is not).
//
//   Seeded draw(mix(seed, "names"));
//   const int threads = draw.choose({128, 256, 512});
//   if (draw.chance(0.3)) …
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace musacoder::synth {

// A seed for one purpose, independent of those for other purposes.
std::uint64_t mix(std::uint64_t seed, std::string_view purpose);

class Seeded {
 public:
  explicit Seeded(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();                       // splitmix64, https://prng.di.unimi.it/splitmix64.c (public domain)
  std::size_t below(std::size_t n);           // [0, n); n must not be 0
  std::int64_t between(std::int64_t low, std::int64_t high);  // inclusive
  double real();                              // [0, 1)
  bool chance(double p) { return real() < p; }
  template <typename T>
  T choose(std::initializer_list<T> of) { return of.begin()[below(of.size())]; }
  template <typename T>
  const T& choose(const std::vector<T>& of) { return of[below(of.size())]; }
  template <typename T>
  void shuffle(std::vector<T>& of) {
    for (std::size_t i = of.size(); i > 1; --i) std::swap(of[i - 1], of[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace musacoder::synth
