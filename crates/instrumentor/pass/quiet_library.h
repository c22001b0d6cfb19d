// Library functions that call nothing of the program: they are given no function, and keep none that they were given before.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace refrain {

// By its name; of a function that the module only declares.
bool callsNothingBack(llvm::StringRef Name);

} // namespace refrain
