#include "synth/seeded.h"

#include "base/hash.h"

namespace musacoder::synth {

std::uint64_t mix(std::uint64_t seed, std::string_view purpose) { return base::xxh3(purpose, seed); }

std::uint64_t Seeded::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::size_t Seeded::below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

std::int64_t Seeded::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
}

double Seeded::real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

}  // namespace musacoder::synth
