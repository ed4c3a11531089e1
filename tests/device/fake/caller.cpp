// A shared object that launches: built as the candidate's, as torch's, as cuBLAS's and as a stranger's, which
// differ in name and folder. Its functions do not become tail calls, so that they stand on the stack.
#include "fake.h"

namespace {
volatile int seen = 0;
int handle = 0;  // as __cudaGetKernel gives one to each compiled object
int here(int value) { return seen = value, value; }
}  // namespace

extern "C" {
void stub() { seen = 1; }
const char* kept_name() {
  return "_Z12kept_by_namePf";
}  // as __cudaRegisterFunction's argument stands in a compiled object
int by_stub(const char* name, int result) {
  return here(fake_launch(reinterpret_cast<const void*>(&stub), name, result));
}
int by_handle(const char* name) { return here(fake_launch_handle(&handle, name)); }
int by_driver(void* function, const char* name) { return here(fake_launch_driver(function, name)); }
int load(void* module, void* function) { return here(fake_module_function(module, function)); }
int capture(const char* name, unsigned long node) {
  return here(fake_capture(reinterpret_cast<const void*>(&stub), name, node));
}
int take(unsigned long long address, std::size_t bytes) { return here(fake_take(address, bytes)); }
int give(unsigned long long address) { return here(fake_give(address)); }
int through(int (*function)(const char*), const char* name) { return here(function(name)); }
}
