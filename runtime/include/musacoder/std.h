// What torch's headers bring along from the standard library and CUDA.
//
// Everything by default, so that sources which rely on it compile as with torch. The builder makes the common case fast by
// two promises about the sources: MUSACODER_LEAN_STD, they name nothing of std:: but what is marked lean here;
// MUSACODER_LEAN_HALF, they do not speak of half or bfloat16.
#ifndef MUSACODER_SLIM_MUSACODER_STD_H
#define MUSACODER_SLIM_MUSACODER_STD_H

#include <array>
#include <cassert>
#include <cfloat>
#include <cinttypes>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef MUSACODER_LEAN_STD
#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <iomanip>
#include <ios>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <ostream>
#include <queue>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#endif

#ifdef __CUDACC__
#include <cuda_runtime.h>
#ifndef MUSACODER_LEAN_HALF
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#endif
