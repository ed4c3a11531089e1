// Loaded into a compiler front end (cudafe++, cicc) with LD_PRELOAD: makes it a *fork server* that has read the headers
// once and compiles any number of sources that begin with them.
//
// The front end opens its input with fopen. For that one path this library hands out a stream of its own. The stream first
// yields the file itself, the preprocessed headers. When the parser asks for more, it knows all of them, and nothing of any
// candidate: here the process stops and serves requests. Each request forks it; the child goes on reading, now the request's
// source, and ends as the compiler always does. Every path below the scratch folder that the command line named is moved to
// the request's folder, so that children share no file.
//
//   environment  MUSACODER_WARM_INPUT    path of the input file as on the command line
//                MUSACODER_WARM_SCRATCH  folder of all files named on the command line, without a slash at its end
//                MUSACODER_WARM_SOCKET   descriptor of a stream socket
//                MUSACODER_WARM_WALL_S, MUSACODER_WARM_MEMORY_MB   limits of one child
//   socket       -> "ready\n" when the headers are read
//                <- "ID FOLDER\n"         the source is FOLDER/source.ii, compiler messages go to FOLDER/log
//                -> "ID WAITSTATUS\n"     as of waitpid; in the order in which children end
//
// A child may write below its own folder only (Landlock, where the kernel has it). When the socket closes, all ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMaxChildren = 256;
constexpr std::size_t kMaxPath = 4096;

// Plain globals without destructors: the compiler's own exit handlers may still open files.
char input_path[kMaxPath], scratch[kMaxPath], folder[kMaxPath];   // folder: the request's, "" in the server
std::size_t scratch_length = 0;
int socket_fd = -1;
int source_fd = -1;                                               // where the stream reads now
bool initialised = false;

template <typename F>
F real(F, const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

void initialise() {
  if (initialised) return;
  initialised = true;
  const char* input = ::getenv("MUSACODER_WARM_INPUT");
  const char* base = ::getenv("MUSACODER_WARM_SCRATCH");
  const char* fd = ::getenv("MUSACODER_WARM_SOCKET");
  if (!input || !base || !fd || std::strlen(input) >= kMaxPath || std::strlen(base) >= kMaxPath) return;
  std::strcpy(input_path, input);
  std::strcpy(scratch, base);
  scratch_length = std::strlen(scratch);
  socket_fd = std::atoi(fd);
}

// The path in the request's folder, or the path itself. `buffer` holds kMaxPath bytes.
const char* moved(const char* path, char* buffer) {
  if (!path || !folder[0] || scratch_length == 0 || std::strncmp(path, scratch, scratch_length) != 0 || path[scratch_length] != '/') return path;
  if (static_cast<std::size_t>(std::snprintf(buffer, kMaxPath, "%s%s", folder, path + scratch_length)) >= kMaxPath) return path;
  return buffer;
}

void say(const char* text) {
  for (std::size_t done = 0, size = std::strlen(text); done < size;) {
    ssize_t n = ::write(socket_fd, text + done, size - done);
    if (n <= 0) ::_exit(1);
    done += static_cast<std::size_t>(n);
  }
}

// Writing only below `where`; reading stays as the server's sandbox allows it.
void write_only_below(const char* where) {
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                           LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                           LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                           LANDLOCK_ACCESS_FS_MAKE_SYM;
  int rules = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0));
  if (rules < 0) return;
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = attr.handled_access_fs;
  beneath.parent_fd = ::open(where, O_PATH | O_CLOEXEC);
  if (beneath.parent_fd >= 0 && ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::syscall(SYS_landlock_restrict_self, rules, 0);
  }
  ::close(beneath.parent_fd);
  ::close(rules);
}

unsigned long limit_of(const char* name) {
  const char* text = ::getenv(name);
  return text ? std::strtoul(text, nullptr, 10) : 0;
}

// In the child: becomes the compiler of one source.
void become_child(const char* where) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::strcpy(folder, where);
  char path[kMaxPath + 16];
  std::snprintf(path, sizeof path, "%s/log", where);
  int log = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  std::snprintf(path, sizeof path, "%s/source.ii", where);
  source_fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (log < 0 || source_fd < 0) ::_exit(120);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::close(log);
  ::close(socket_fd);
  if (unsigned long seconds = limit_of("MUSACODER_WARM_WALL_S")) {
    rlimit cpu{seconds, seconds};
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::alarm(static_cast<unsigned>(seconds));
  }
  if (unsigned long mb = limit_of("MUSACODER_WARM_MEMORY_MB")) {
    rlimit memory{mb << 20, mb << 20};
    ::setrlimit(RLIMIT_DATA, &memory);
  }
  write_only_below(where);
}

struct Request {
  pid_t pid = 0;
  unsigned long id = 0;
};
Request requests[kMaxChildren];

void reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
    for (auto& r : requests)
      if (r.pid == pid) {
        char line[64];
        std::snprintf(line, sizeof line, "%lu %d\n", r.id, status);
        r.pid = 0;
        say(line);
      }
}

// Returns in a child only.
void serve() {
  sigset_t set, before;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set, &before);
  int signals = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  say("ready\n");
  char buffer[2 * kMaxPath];
  std::size_t filled = 0;
  for (;;) {
    pollfd fds[2] = {{socket_fd, POLLIN, 0}, {signals, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents) {
      signalfd_siginfo info[8];
      while (::read(signals, info, sizeof info) > 0) {
      }
      reap();
    }
    if (!fds[0].revents) continue;
    ssize_t n = ::read(socket_fd, buffer + filled, sizeof buffer - 1 - filled);
    if (n <= 0) {
      for (auto& r : requests)
        if (r.pid) ::kill(r.pid, SIGKILL);
      ::_exit(0);
    }
    filled += static_cast<std::size_t>(n);
    for (char* end; (end = static_cast<char*>(std::memchr(buffer, '\n', filled))) != nullptr;) {
      *end = 0;
      char* space = std::strchr(buffer, ' ');
      unsigned long id = std::strtoul(buffer, nullptr, 10);
      Request* free_slot = nullptr;
      for (auto& r : requests)
        if (!r.pid) free_slot = &r;
      pid_t pid = -1;
      if (space && std::strlen(space + 1) < kMaxPath && free_slot) {
        char where[kMaxPath];
        std::strcpy(where, space + 1);
        pid = ::fork();
        if (pid == 0) {
          ::sigprocmask(SIG_SETMASK, &before, nullptr);
          ::close(signals);
          become_child(where);
          return;
        }
      }
      if (pid > 0) {
        *free_slot = {pid, id};
      } else {
        char line[64];
        std::snprintf(line, sizeof line, "%lu %d\n", id, 121 << 8);
        say(line);
      }
      std::size_t used = static_cast<std::size_t>(end + 1 - buffer);
      std::memmove(buffer, end + 1, filled - used);
      filled -= used;
    }
    if (filled == sizeof buffer - 1) ::_exit(1);
  }
}

ssize_t stream_read(void*, char* buffer, std::size_t size) {
  for (;;) {
    ssize_t n = ::read(source_fd, buffer, size);
    if (n != 0 || folder[0]) return n;
    ::close(source_fd);
    serve();
  }
}
int stream_seek(void*, off64_t* offset, int whence) {
  if (folder[0]) return -1;
  off64_t at = ::lseek64(source_fd, *offset, whence);
  if (at < 0) return -1;
  *offset = at;
  return 0;
}
int stream_close(void*) { return ::close(source_fd); }

FILE* open_stream(const char* path, const char* mode, const char* name) {
  initialise();
  static FILE* (*next)(const char*, const char*) = nullptr;
  next = real(next, name);
  if (socket_fd >= 0 && !folder[0] && source_fd < 0 && path && mode && mode[0] == 'r' && std::strcmp(path, input_path) == 0) {
    source_fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    if (source_fd < 0) return nullptr;
    cookie_io_functions_t functions{stream_read, nullptr, stream_seek, stream_close};
    return ::fopencookie(nullptr, "r", functions);
  }
  char buffer[kMaxPath];
  return next(moved(path, buffer), mode);
}

int open_file(const char* path, int flags, mode_t mode) {
  char buffer[kMaxPath];
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, moved(path, buffer), flags | O_LARGEFILE, mode));
}

}  // namespace

#define MC_EXPORT extern "C" __attribute__((visibility("default")))

MC_EXPORT FILE* fopen(const char* path, const char* mode) { return open_stream(path, mode, "fopen"); }
MC_EXPORT FILE* fopen64(const char* path, const char* mode) { return open_stream(path, mode, "fopen64"); }

MC_EXPORT int open(const char* path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = static_cast<mode_t>(va_arg(args, int));
  va_end(args);
  return open_file(path, flags, mode);
}
MC_EXPORT int open64(const char* path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = static_cast<mode_t>(va_arg(args, int));
  va_end(args);
  return open_file(path, flags, mode);
}
MC_EXPORT int unlink(const char* path) noexcept {
  char buffer[kMaxPath];
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, moved(path, buffer), 0));
}
MC_EXPORT int remove(const char* path) noexcept {
  char buffer[kMaxPath];
  static int (*next)(const char*) = nullptr;
  next = real(next, "remove");
  return next(moved(path, buffer));
}
MC_EXPORT int rename(const char* from, const char* to) noexcept {
  char first[kMaxPath], second[kMaxPath];
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, moved(from, first), AT_FDCWD, moved(to, second), 0));
}
// What binaries made before glibc 2.33 call for stat, lstat.
MC_EXPORT int __xstat(int version, const char* path, struct stat* result) {
  char buffer[kMaxPath];
  static int (*next)(int, const char*, struct stat*) = nullptr;
  next = real(next, "__xstat");
  return next(version, moved(path, buffer), result);
}
MC_EXPORT int __lxstat(int version, const char* path, struct stat* result) {
  char buffer[kMaxPath];
  static int (*next)(int, const char*, struct stat*) = nullptr;
  next = real(next, "__lxstat");
  return next(version, moved(path, buffer), result);
}
MC_EXPORT int stat(const char* path, struct stat* result) noexcept {
  char buffer[kMaxPath];
  return ::fstatat(AT_FDCWD, moved(path, buffer), result, 0);
}
MC_EXPORT int access(const char* path, int mode) noexcept {
  char buffer[kMaxPath];
  return static_cast<int>(::syscall(SYS_faccessat, AT_FDCWD, moved(path, buffer), mode));
}
