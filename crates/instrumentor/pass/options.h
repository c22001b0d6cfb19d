// Compile-time switches, read from the environment because a plugin has no command line of its own under clang.
#pragma once

#include <cstdlib>
#include <cstring>

namespace refrain {

// A switch is on unless its variable is set to "0" (or off unless set to something else, for DefaultOn = false).
inline bool option(const char *Name, bool DefaultOn) {
  const char *Value = std::getenv(Name);
  if (!Value || !*Value)
    return DefaultOn;
  return std::strcmp(Value, "0") != 0;
}

// What the code is to be recorded for: everything, or no more than synchronisation, which leaves plain accesses alone.
inline bool observesPlainAccesses() {
  const char *Scope = std::getenv("REFRAIN_BUILD_SCOPE");
  return !Scope || std::strcmp(Scope, "sync") != 0;
}

struct Options {
  bool Memory = observesPlainAccesses();
  bool Counted = option("REFRAIN_BUILD_DET", false);   // functions that count, for `refrain run` (counted.h)
  bool Parts = Memory && option("REFRAIN_BUILD_COOP", false); // versions for partial recordings (parts.h)
  bool Groups = option("REFRAIN_GROUPS", true);        // several accesses under one check
  bool Outline = option("REFRAIN_OUTLINE", false);     // code that is not done often calls its checks (quiet.h)
  bool Loops = option("REFRAIN_LOOPS", true);          // whole loops under one check
  bool Lockset = option("REFRAIN_O2", true);           // Light, lemma 4.2: leave consistently locked globals alone
  bool Settled = option("REFRAIN_SETTLED", true);      // leave globals alone that are only read once there are threads
  bool Verify = option("REFRAIN_VERIFY_IR", false);    // run LLVM's verifier on the result
  bool Stats = option("REFRAIN_PASS_STATS", false);    // one line per function on stderr
};

} // namespace refrain
