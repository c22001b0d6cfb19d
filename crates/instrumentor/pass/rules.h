// The rules by which memory is not observed. What each rests on, and why a read sees the recorded write in replay all the same:
// docs/observed.md, which has a row for each.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace refrain {

enum class Rule {
  // Others may use it: it is observed.
  Shared,
  // Of memory (filters.cpp).
  Segment,
  Constant,
  Profile,
  ThreadLocal,
  NeverWritten,
  Settled,
  Locked,
  ByValue,
  Stack,
  FreshHeap,
  // Memory of our own, in functions that have been instrumented.
  Scratch,
  // Of loads (filters.cpp).
  Invariant,
  VirtualTable,
  // Of instructions and functions that are left as they are, whatever they access.
  SyncOnly,
  Untouched,
  NoMemoryForm,
  UnknownInstruction,
  TailCall,
  Assembly,
};

// As `--why` prints it, and the page has it.
inline llvm::StringRef nameOf(Rule R) {
  switch (R) {
  case Rule::Shared:
    return "shared";
  case Rule::Segment:
    return "segment";
  case Rule::Constant:
    return "constant";
  case Rule::Profile:
    return "profile";
  case Rule::ThreadLocal:
    return "thread-local";
  case Rule::NeverWritten:
    return "never-written";
  case Rule::Settled:
    return "settled";
  case Rule::Locked:
    return "locked";
  case Rule::ByValue:
    return "by-value";
  case Rule::Stack:
    return "stack";
  case Rule::FreshHeap:
    return "fresh-heap";
  case Rule::Scratch:
    return "scratch";
  case Rule::Invariant:
    return "invariant";
  case Rule::VirtualTable:
    return "virtual-table";
  case Rule::SyncOnly:
    return "sync-only";
  case Rule::Untouched:
    return "untouched";
  case Rule::NoMemoryForm:
    return "no-memory-form";
  case Rule::UnknownInstruction:
    return "unknown-instruction";
  case Rule::TailCall:
    return "tail-call";
  case Rule::Assembly:
    return "assembly";
  }
  return "";
}

} // namespace refrain
