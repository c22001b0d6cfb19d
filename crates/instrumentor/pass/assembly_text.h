// What the text of an inline assembly statement says about memory, in the syntax of AT&T as LLVM hands it on.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace refrain {

// A register in an address: an operand of the statement, or one by its name.
struct AddressPart {
  std::optional<unsigned> Operand;
  std::string Register; // without the percent sign
};

// One operand of an instruction that is, or may be, memory.
struct MemoryText {
  // "$0": an operand of the statement, which is memory if its constraint says so.
  std::optional<unsigned> Operand;
  // "8($1, $2, 4)": what it is computed from.
  std::optional<AddressPart> Base, Index;
  int64_t Displacement = 0;
  unsigned Scale = 1;
};

enum class Effect { Reads, Writes, Both };

// How an instruction treats the operand that is memory.
enum class Manner {
  // An integer of a register's size: as synchronisation is written.
  Simple,
  // Something else: arithmetic on wide operands, vectors, the state of the processor.
  Other
};

struct AssemblyInstruction {
  bool Locked = false;
  std::string Mnemonic;
  llvm::SmallVector<std::string, 3> Operands;
};

// The instructions of a text, without comments, labels and directives. None if it has directives that make it more than a
// sequence of instructions, or a form that is not understood here.
struct AssemblyText {
  llvm::SmallVector<AssemblyInstruction, 4> Instructions;
  // A jump to an earlier label.
  bool Loops = false;
  bool Understood = true;
};

AssemblyText parseAssembly(llvm::StringRef Text);

// The operand as memory, or as an operand of the statement; nothing if it is a register by name, or a number.
// `Understood` becomes false if it is memory of a form that is not understood.
std::optional<MemoryText> parseOperand(llvm::StringRef Operand, bool &Understood);

// What instruction I does to its operand at index At, if that is memory; none if that is not known here.
struct Treatment {
  Effect What;
  Manner How;
};
std::optional<Treatment> treatment(const AssemblyInstruction &I, unsigned At);

// Bytes of memory that the instruction's name tells, or 0.
unsigned bytesByName(const AssemblyInstruction &I);

// Accesses nothing through operands that look like memory (lea, prefetch), or no memory at all.
bool onlyNamesAddress(llvm::StringRef Mnemonic);

// Accesses memory that no operand names: strings, the stack, whole states of the processor; or goes somewhere else.
bool accessesImplicitly(llvm::StringRef Mnemonic);

// A register that is the stack's, or a segment that is the thread's own.
bool isOwnRegister(llvm::StringRef Register);

} // namespace refrain
