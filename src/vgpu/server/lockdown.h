// The system calls that a virtual GPU needs once it runs, and no others: memory, threads, time, and its two sockets.
//
//   bool on = lock_down();   // after the device exists, before the first frame is read
//
// musacoder-vgpud parses and executes what hostile processes send. Everything else (files, programs, other processes, new
// sockets) is answered with EPERM from then on, for all threads.
#pragma once

namespace musacoder::vgpu {

// False when the kernel has no seccomp or the program is built with a sanitizer, which needs more.
bool lock_down();

}  // namespace musacoder::vgpu
