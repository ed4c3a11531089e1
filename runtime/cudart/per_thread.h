// An object of each thread that stays usable until the last instruction of the process.
//
//   struct LastText { std::string text; };
//   per_thread<LastText>().text = "the connection is lost";
//
// A plain thread_local object of the main thread is destroyed before the destructors of static objects run, and those still
// come here: the code that nvcc generates unregisters its kernels then, and candidates free what they keep in statics.
// What is asked for after its thread's end is made anew and never destroyed. T tells the objects apart.
#pragma once

namespace musacoder {

template <class T>
T& per_thread() {
  thread_local T* object = nullptr;
  struct Owner {
    ~Owner() {
      T* mine = object;
      object = nullptr;
      delete mine;
    }
  };
  thread_local Owner owner;
  static_cast<void>(&owner);   // names it, so that it is made and its destructor booked
  if (!object) object = new T;
  return *object;
}

}  // namespace musacoder
