// Connects the stand-in torch_musa's device to the stand-in GPU.
#include "device.h"

extern "C" __attribute__((visibility("default"))) int standin_connect(int fd) {
  try {
    musacoder::device::connect(fd);
    return 0;
  } catch (...) {
    return 1;
  }
}
