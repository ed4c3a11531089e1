// TensorAccessor and PackedTensorAccessor: indexed access to a tensor's elements on host and device.
#ifndef MUSACODER_SLIM_MUSACODER_ACCESSOR_H
#define MUSACODER_SLIM_MUSACODER_ACCESSOR_H

#include "std.h"

namespace at {
template <class T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
#ifdef __CUDACC__
template <class T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
#endif

// Sizes and strides lie elsewhere; lives no longer than the tensor.
template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
class TensorAccessorBase {
 public:
  typedef typename P<T>::PtrType PtrType;
  C10_HOST_DEVICE TensorAccessorBase(PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE I stride(I i) const { return strides_[i]; }
  C10_HOST_DEVICE I size(I i) const { return sizes_[i]; }
  C10_HOST_DEVICE PtrType data() { return data_; }
  C10_HOST_DEVICE const PtrType data() const { return data_; }

 protected:
  PtrType data_;
  const I* sizes_;
  const I* strides_;
};

template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
class TensorAccessor : public TensorAccessorBase<T, N, P, I> {
 public:
  using TensorAccessorBase<T, N, P, I>::TensorAccessorBase;
  C10_HOST_DEVICE TensorAccessor<T, N - 1, P, I> operator[](I i) {
    return TensorAccessor<T, N - 1, P, I>(this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1);
  }
  C10_HOST_DEVICE const TensorAccessor<T, N - 1, P, I> operator[](I i) const {
    return TensorAccessor<T, N - 1, P, I>(this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1);
  }
};
template <class T, template <class U> class P, class I>
class TensorAccessor<T, 1, P, I> : public TensorAccessorBase<T, 1, P, I> {
 public:
  using TensorAccessorBase<T, 1, P, I>::TensorAccessorBase;
  C10_HOST_DEVICE T& operator[](I i) { return this->data_[this->strides_[0] * i]; }
  C10_HOST_DEVICE const T& operator[](I i) const { return this->data_[this->strides_[0] * i]; }
};

// Carries its sizes and strides, to be passed to a kernel by value.
template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
class GenericPackedTensorAccessor {
 public:
  typedef typename P<T>::PtrType PtrType;
  template <class J>
  GenericPackedTensorAccessor(PtrType data, const J* sizes, const J* strides) : data_(data) {
    for (std::size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<I>(sizes[i]);
      strides_[i] = static_cast<I>(strides[i]);
    }
  }
  C10_HOST_DEVICE I stride(I i) const { return strides_[i]; }
  C10_HOST_DEVICE I size(I i) const { return sizes_[i]; }
  C10_HOST_DEVICE PtrType data() { return data_; }
  C10_HOST_DEVICE const PtrType data() const { return data_; }
  C10_DEVICE decltype(auto) operator[](I i) { return element(i); }
  C10_DEVICE decltype(auto) operator[](I i) const { return const_element(i); }

 private:
  C10_DEVICE decltype(auto) element(I i) {
    if constexpr (N == 1) return (data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  C10_DEVICE decltype(auto) const_element(I i) const {
    if constexpr (N == 1) return (static_cast<const T&>(data_[strides_[0] * i]));
    else return static_cast<const TensorAccessor<T, N - 1, P, I>>(
        TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1));
  }
  PtrType data_;
  I sizes_[N], strides_[N];
};
template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, std::int32_t>;
template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, std::int64_t>;
template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, P, I>;
}  // namespace at
#endif
