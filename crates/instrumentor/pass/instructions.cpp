#include "instructions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"

using namespace llvm;

namespace refrain {
namespace {

bool isRandomIntrinsic(Intrinsic::ID ID) {
  switch (ID) {
  case Intrinsic::x86_rdrand_16:
  case Intrinsic::x86_rdrand_32:
  case Intrinsic::x86_rdrand_64:
  case Intrinsic::x86_rdseed_16:
  case Intrinsic::x86_rdseed_32:
  case Intrinsic::x86_rdseed_64:
    return true;
  default:
    return false;
  }
}

bool isMachineIntrinsic(Intrinsic::ID ID) {
  switch (ID) {
  case Intrinsic::readcyclecounter:
  case Intrinsic::readsteadycounter:
  case Intrinsic::x86_rdtsc:
  case Intrinsic::x86_rdtscp:
  case Intrinsic::x86_rdpmc:
  case Intrinsic::x86_rdpid:
    return true;
  default:
    return isRandomIntrinsic(ID);
  }
}

// The same of what yields random numbers.
bool yieldsRandom(const CallInst &Call) {
  if (auto *Asm = dyn_cast<InlineAsm>(Call.getCalledOperand())) {
    StringRef Text = Asm->getAsmString();
    return Text.contains_insensitive("rdrand") || Text.contains_insensitive("rdseed");
  }
  auto *Callee = Call.getCalledFunction();
  return Callee && isRandomIntrinsic(Callee->getIntrinsicID());
}

// One of the instructions as a word of its own: "rdtsc; shl $32, %rdx" but not "my_cpuid_table".
bool mentionsMachineInstruction(StringRef Text) {
  for (size_t At = 0; At < Text.size();) {
    size_t End = At;
    while (End < Text.size() && (isAlnum(Text[End]) || Text[End] == '_' || Text[End] == '.'))
      End++;
    StringRef Word = Text.slice(At, End);
    for (StringRef Name : {"rdtsc", "rdtscp", "cpuid", "rdpid", "rdpmc"})
      if (Word.equals_insensitive(Name))
        return true;
    // With or without a suffix for the size.
    for (StringRef Name : {"rdrand", "rdseed"})
      if (Word.starts_with_insensitive(Name) && Word.size() <= Name.size() + 1)
        return true;
    At = std::max(End, At + 1);
  }
  return false;
}

bool yieldsFromMachine(const CallInst &Call) {
  if (Call.getType()->isVoidTy() || !Call.getType()->isSized())
    return false;
  if (auto *Asm = dyn_cast<InlineAsm>(Call.getCalledOperand()))
    return mentionsMachineInstruction(Asm->getAsmString());
  auto *Callee = Call.getCalledFunction();
  return Callee && isMachineIntrinsic(Callee->getIntrinsicID());
}

} // namespace

void recordInstructions(Function &F, Runtime &R) {
  SmallVector<CallInst *, 4> Work;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallInst>(&I); Call && yieldsFromMachine(*Call) && !Call->isMustTailCall())
      Work.push_back(Call);
  for (CallInst *Call : Work) {
    Type *T = Call->getType();
    uint64_t Bytes = R.DL.getTypeStoreSize(T).getFixedValue();
    AllocaInst *Place = scratch(F, Bytes, "refrain.instruction");
    IRBuilder<> B(Call->getNextNode());
    B.SetCurrentDebugLocation(Call->getDebugLoc());
    // Padding inside the type would be recorded as whatever the stack holds, and compared with nothing.
    B.CreateMemSet(Place, B.getInt8(0), Bytes, Align(16));
    StoreInst *Store = B.CreateStore(Call, Place);
    R.call(B, "__refrain_instruction", R.Void, {Place, R.number(Bytes | (yieldsRandom(*Call) ? abi::RandomInstruction : 0))});
    Value *Result = B.CreateLoad(T, Place);
    Call->replaceUsesWithIf(Result, [&](Use &U) { return U.getUser() != Store; });
  }
}

} // namespace refrain
