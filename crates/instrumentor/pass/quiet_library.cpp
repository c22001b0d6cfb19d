#include "quiet_library.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace refrain {

bool callsNothingBack(StringRef Name) {
  static const StringSet<> Known = {
      // Memory.
      "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign", "_Znwm", "_Znam", "_ZnwmSt11align_val_t",
      "_ZnamSt11align_val_t", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm",
      "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdaPvmSt11align_val_t",
      // Strings and numbers.
      "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strnlen", "strcmp", "strncmp", "strcasecmp", "strncasecmp", "strcpy",
      "strncpy", "strcat", "strncat", "strchr", "strrchr", "strstr", "strspn", "strcspn", "strpbrk", "strtok", "strtok_r", "strdup", "strndup",
      "strerror", "atoi", "atol", "atoll", "atof", "strtol", "strtoul", "strtoll", "strtoull", "strtod", "strtof", "__isoc23_strtol",
      "__isoc23_strtoul", "__isoc23_strtoll", "__isoc23_strtoull", "__ctype_b_loc", "__ctype_tolower_loc", "__ctype_toupper_loc", "toupper",
      "tolower", "isalpha", "isdigit", "isspace", "isalnum", "rand", "srand", "random", "srandom", "drand48", "srand48", "lrand48",
      // Streams, on files.
      "printf", "fprintf", "sprintf", "snprintf", "vprintf", "vfprintf", "vsnprintf", "puts", "fputs", "putchar", "putc", "fputc", "fwrite",
      "perror", "fflush", "fopen", "fclose", "fread", "fgets", "fgetc", "getc", "getchar", "getline", "feof", "ferror", "fseek", "ftell",
      "rewind", "scanf", "fscanf", "sscanf", "__isoc99_scanf", "__isoc99_fscanf", "__isoc99_sscanf", "__isoc23_scanf", "__isoc23_fscanf",
      "__isoc23_sscanf", "setvbuf", "setbuf", "setlinebuf", "open", "close", "read", "write", "lseek", "stat", "fstat",
      // The process and the clock.
      "getenv", "getopt", "getopt_long", "time", "clock", "clock_gettime", "gettimeofday", "sysconf", "getpid", "getpagesize", "exit", "_exit",
      "abort", "__assert_fail", "__errno_location", "__stack_chk_fail",
      // What threads will need.
      "pthread_self", "pthread_attr_init", "pthread_attr_destroy", "pthread_attr_setstacksize", "pthread_attr_setdetachstate",
      "pthread_mutex_init", "pthread_mutex_destroy", "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutexattr_init",
      "pthread_mutexattr_settype", "pthread_mutexattr_destroy", "pthread_cond_init", "pthread_barrier_init", "pthread_rwlock_init",
      "pthread_spin_init", "sem_init",
      // C++: what throws ends in a handler, and the handler of what nobody catches was set by a call.
      "_ZNSt8ios_base4InitC1Ev", "__cxa_allocate_exception", "__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort"};
  return Known.contains(Name) || (Name.starts_with("_ZSt") && Name.contains("__throw_"));
}

} // namespace refrain
