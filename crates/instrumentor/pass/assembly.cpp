#include "assembly.h"
#include "assembly_text.h"
#include "options.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace refrain {

namespace {

// More than any instruction accesses, and few enough cells to hold at once.
constexpr uint64_t EventBytesMax = 64;
constexpr uint64_t CopyBytesMax = 4096;

// Memory that a statement accesses: pointer + index * scale + displacement.
struct Place {
  Value *Pointer = nullptr;
  Value *Index = nullptr;
  unsigned Scale = 1;
  int64_t Displacement = 0;
  // Instructions on single bits choose the integer by the number of the bit.
  Value *Bit = nullptr;
  uint64_t Bytes = 0;
  bool Reads = false, Writes = false;
  // The argument that is this memory, if it is one.
  std::optional<unsigned> Argument;

  bool isSamePlace(const Place &Other) const {
    return Pointer == Other.Pointer && Index == Other.Index && Scale == Other.Scale && Displacement == Other.Displacement &&
           Bit == Other.Bit;
  }
};

// A local variable that only loads, stores and assembly use: nobody else knows its address. An operand of assembly counts as
// an escape elsewhere.
bool isLocal(const Value *Pointer) {
  auto *Variable = dyn_cast<AllocaInst>(getUnderlyingObject(Pointer, /*MaxLookup=*/12));
  if (!Variable)
    return false;
  SmallVector<const Value *, 8> Work = {Variable};
  while (!Work.empty()) {
    for (const Use &U : Work.pop_back_val()->uses()) {
      auto *I = cast<Instruction>(U.getUser());
      auto *Call = dyn_cast<CallBase>(I);
      if (isa<GetElementPtrInst>(I))
        Work.push_back(I);
      else if (auto *S = dyn_cast<StoreInst>(I); S && U.getOperandNo() != StoreInst::getPointerOperandIndex())
        return false;
      else if (Call && !(Call->isInlineAsm() && Call->isArgOperand(&U) && Call->getParamElementType(Call->getArgOperandNo(&U))) &&
               !I->isLifetimeStartOrEnd() && !isa<MemIntrinsic>(I) && !isa<DbgInfoIntrinsic>(I))
        return false;
      else if (!Call && !isa<LoadInst, StoreInst>(I))
        return false;
    }
  }
  return true;
}

class Statement {
public:
  Statement(CallBase &Call, Filters &Keep, Runtime &R, SiteTable &Sites)
      : Call(Call), Asm(*cast<InlineAsm>(Call.getCalledOperand())), Keep(Keep), R(R), Sites(Sites), Constraints(Asm.ParseConstraints()) {
    unsigned Argument = 0;
    for (const InlineAsm::ConstraintInfo &C : Constraints)
      Arguments.push_back(C.Type == InlineAsm::isInput || (C.Type == InlineAsm::isOutput && C.isIndirect)
                              ? std::optional<unsigned>(Argument++)
                              : std::nullopt);
  }

  void observe(Why *Asked) {
    AssemblyAs How = decide();
    if (Asked)
      Asked->assembly(Call, How);
    if (How == AssemblyAs::Unobserved)
      list();
    else if (How == AssemblyAs::Event)
      asEvent(*cast<CallInst>(&Call), Places[0]);
    else if (How == AssemblyAs::Copies && Options().Memory)
      workOnCopies(*cast<CallInst>(&Call));
  }

private:
  AssemblyAs decide() {
    if (Asm.getDialect() == InlineAsm::AD_Intel)
      // Their operands are in another order; the brackets say that one is memory.
      return Asm.getAsmString().contains('[') ? AssemblyAs::Unobserved : AssemblyAs::Nothing;
    AssemblyText Text = parseAssembly(Asm.getAsmString());
    for (const AssemblyInstruction &I : Text.Instructions)
      instruction(I, Text.Instructions.size());
    if (!Text.Understood && (SharedOperands() || StringRef(Asm.getAsmString()).contains('(')))
      Unknown = true;
    if (Unknown)
      return AssemblyAs::Unobserved;
    if (Places.empty())
      return AssemblyAs::Nothing;
    if (!isa<CallInst>(Call) || Text.Loops || any_of(Call.args(), [](const Use &A) { return isa<BlockAddress>(A); }))
      return AssemblyAs::Unobserved;
    if (Places.size() == 1 && Simple && Places[0].Bytes && Places[0].Bytes <= EventBytesMax)
      return AssemblyAs::Event;
    return canWorkOnCopies() ? AssemblyAs::Copies : AssemblyAs::Unobserved;
  }

  bool isShared(const Value *Pointer) { return !isLocal(Pointer) && !Keep.isPrivate(Pointer); }

  bool SharedOperands() {
    for (unsigned N = 0; N < Constraints.size(); N++)
      if (Constraints[N].isIndirect && Arguments[N] && isShared(Call.getArgOperand(*Arguments[N])))
        return true;
    return false;
  }

  // The value in a register when the statement begins, if it is still there at any of its instructions.
  Value *valueOf(const AddressPart &Part, size_t Instructions) {
    for (unsigned N = 0; N < Constraints.size(); N++) {
      const InlineAsm::ConstraintInfo &C = Constraints[N];
      bool Named = Part.Operand ? *Part.Operand == N : any_of(C.Codes, [&](const std::string &Code) {
        StringRef Register = Part.Register;
        return Code == ("{" + Register + "}").str() || (Register.consume_front("r") && Code == ("{" + Register + "}").str());
      });
      if (!Named || C.isIndirect || C.Type == InlineAsm::isClobber)
        continue;
      unsigned From = N;
      if (C.Type == InlineAsm::isOutput) {
        // An operand that is read and written: only the first instruction surely finds what was in it.
        if (!C.hasMatchingInput() || Instructions != 1)
          return nullptr;
        From = C.MatchingInput;
      } else if (Part.Register.size() && tied(N) && Instructions != 1) {
        return nullptr;
      }
      return From < Arguments.size() && Arguments[From] ? Call.getArgOperand(*Arguments[From]) : nullptr;
    }
    return nullptr;
  }

  bool tied(unsigned Input) {
    return any_of(Constraints, [&](const InlineAsm::ConstraintInfo &C) {
      return C.Type == InlineAsm::isOutput && C.hasMatchingInput() && unsigned(C.MatchingInput) == Input;
    });
  }

  // Bytes of a register operand, which is as large as the memory it goes to or comes from.
  uint64_t registerBytes(StringRef Operand) {
    if (Operand.consume_front("%"))
      return StringSwitch<uint64_t>(Operand)
          .Cases({"al", "bl", "cl", "dl"}, 1)
          .Cases({"ax", "bx", "cx", "dx"}, 2)
          .Default(Operand.starts_with("r") ? 8 : Operand.starts_with("e") ? 4 : 0);
    bool Understood = true;
    std::optional<MemoryText> T = parseOperand(Operand, Understood);
    if (!T || !T->Operand || *T->Operand >= Constraints.size() || Constraints[*T->Operand].isIndirect)
      return 0;
    if (Operand.ends_with("}"))
      return StringSwitch<uint64_t>(Operand.split(':').second).Cases({"b}", "h}"}, 1).Case("w}", 2).Case("k}", 4).Case("q}", 8).Default(0);
    Type *Ty = typeOf(*T->Operand);
    return Ty && Ty->isSized() ? R.DL.getTypeStoreSize(Ty).getFixedValue() : 0;
  }

  Type *typeOf(unsigned Operand) {
    if (Arguments[Operand])
      return Call.getArgOperand(*Arguments[Operand])->getType();
    auto *Several = dyn_cast<StructType>(Call.getType());
    if (!Several)
      return Call.getType()->isVoidTy() ? nullptr : Call.getType();
    unsigned Result = 0;
    for (unsigned N = 0; N < Operand; N++)
      Result += Constraints[N].Type == InlineAsm::isOutput && !Constraints[N].isIndirect;
    return Result < Several->getNumElements() ? Several->getElementType(Result) : nullptr;
  }

  void instruction(const AssemblyInstruction &I, size_t Instructions) {
    if (onlyNamesAddress(I.Mnemonic))
      return;
    if (accessesImplicitly(I.Mnemonic) && (I.Operands.empty() || StringRef(I.Mnemonic).starts_with("call"))) {
      Unknown = true;
      return;
    }
    // What is jumped to is a label, or a place in a table of the program's text.
    if (StringRef(I.Mnemonic).starts_with("j"))
      return;
    for (unsigned At = 0; At < I.Operands.size(); At++) {
      bool Understood = true;
      std::optional<MemoryText> Text = parseOperand(I.Operands[At], Understood);
      if (!Understood) {
        Unknown = true;
        return;
      }
      if (!Text || (Text->Operand && (*Text->Operand >= Constraints.size() || !Constraints[*Text->Operand].isIndirect)))
        continue;
      if (Text->Base && isOwnRegister(Text->Base->Register))
        continue;
      memory(I, At, *Text, Instructions);
    }
  }

  void memory(const AssemblyInstruction &I, unsigned At, const MemoryText &Text, size_t Instructions) {
    Place P;
    P.Bytes = bytesByName(I);
    for (unsigned Other = 0; !P.Bytes && Other < I.Operands.size(); Other++)
      if (Other != At)
        P.Bytes = registerBytes(I.Operands[Other]);
    if (Text.Operand) {
      P.Argument = Arguments[*Text.Operand];
      P.Pointer = Call.getArgOperand(*P.Argument);
      if (!isShared(P.Pointer))
        return;
      Type *T = Call.getParamElementType(*P.Argument);
      uint64_t Declared = T && T->isSized() ? R.DL.getTypeStoreSize(T).getFixedValue() : 0;
      if (!P.Bytes || Declared <= 16)
        P.Bytes = std::max(P.Bytes, Declared);
    } else {
      P.Pointer = valueOf(*Text.Base, Instructions);
      P.Index = Text.Index ? valueOf(*Text.Index, Instructions) : nullptr;
      P.Scale = Text.Scale;
      P.Displacement = Text.Displacement;
      bool Known = P.Pointer && (P.Pointer->getType()->isPointerTy() || P.Pointer->getType()->isIntegerTy(64));
      if (!Known || (Text.Index && (!P.Index || !P.Index->getType()->isIntegerTy(64)))) {
        Unknown = true;
        return;
      }
      if (P.Pointer->getType()->isPointerTy() && !isShared(P.Pointer))
        return;
    }
    std::optional<Treatment> How = treatment(I, At);
    if (!How || (!P.Bytes && How->How == Manner::Simple)) {
      Unknown = true;
      return;
    }
    if (StringRef(I.Mnemonic).starts_with("bt") && At == 1 && !StringRef(I.Operands[0]).starts_with("$$") && !bit(I, P, Instructions))
      Unknown = true;
    Simple &= How->How == Manner::Simple;
    Locked |= I.Locked || StringRef(I.Mnemonic).starts_with("xchg");
    P.Reads = How->What != Effect::Writes;
    P.Writes = How->What != Effect::Reads;
    for (Place &Known : Places)
      if (Known.isSamePlace(P)) {
        Known.Bytes = std::max(Known.Bytes, P.Bytes);
        Known.Reads |= P.Reads;
        Known.Writes |= P.Writes;
        return;
      }
    Places.push_back(P);
  }

  // The number of the bit is counted from the place, and may be far behind it.
  bool bit(const AssemblyInstruction &I, Place &P, size_t Instructions) {
    bool Understood = true;
    std::optional<MemoryText> Number = parseOperand(I.Operands[0], Understood);
    AddressPart Part;
    if (Number && Number->Operand)
      Part.Operand = Number->Operand;
    else if (StringRef(I.Operands[0]).starts_with("%"))
      Part.Register = StringRef(I.Operands[0]).drop_front().lower();
    P.Bit = valueOf(Part, Instructions);
    unsigned Bytes = bytesByName(I);
    P.Bytes = Bytes ? Bytes : registerBytes(I.Operands[0]);
    return P.Bit && P.Bit->getType()->isIntegerTy() && (P.Bytes == 2 || P.Bytes == 4 || P.Bytes == 8);
  }

  Value *address(IRBuilder<> &B, const Place &P) {
    Value *A = P.Pointer->getType()->isPointerTy() ? B.CreatePtrToInt(P.Pointer, R.I64) : P.Pointer;
    if (P.Displacement)
      A = B.CreateAdd(A, R.number(P.Displacement));
    if (P.Index)
      A = B.CreateAdd(A, B.CreateMul(P.Index, R.number(P.Scale)));
    if (P.Bit) {
      Value *Whole = B.CreateAShr(B.CreateSExtOrTrunc(P.Bit, R.I64), Log2_64(8 * P.Bytes));
      A = B.CreateAdd(A, B.CreateMul(Whole, R.number(P.Bytes)));
    }
    return A;
  }

  // The statement moves into a function of its own, which the runtime calls while nobody else can use the place. What goes in
  // and comes out travels through a buffer.
  void asEvent(CallInst &Plain, const Place &P) {
    SmallVector<Type *, 8> Fields;
    for (const Use &A : Plain.args())
      if (!isa<Constant>(A))
        Fields.push_back(A->getType());
    bool HasResult = !Plain.getType()->isVoidTy();
    if (HasResult)
      Fields.push_back(Plain.getType());
    StructType *Frame = StructType::get(R.C, Fields);
    Function *Body = body(Plain, Frame);
    AllocaInst *Buffer = scratch(*Plain.getFunction(), R.DL.getTypeAllocSize(Frame), "refrain.assembly");
    IRBuilder<> B(&Plain);
    unsigned Field = 0;
    for (const Use &A : Plain.args())
      if (!isa<Constant>(A))
        B.CreateStore(A, B.CreateStructGEP(Frame, Buffer, Field++));
    Constant *Site = Sites.site(Plain, abi::SiteKind::Atomic, P.Bytes);
    uint32_t Reach = P.Reads && P.Writes ? abi::AssemblyBoth : P.Writes ? abi::AssemblyWrites : abi::AssemblyReads;
    R.call(B, "__refrain_assembly", R.Void,
           {address(B, P), R.number(P.Bytes), ConstantInt::get(R.I32, Reach), Body, Buffer, Site});
    if (HasResult)
      Plain.replaceAllUsesWith(B.CreateLoad(Plain.getType(), B.CreateStructGEP(Frame, Buffer, Field)));
    Plain.eraseFromParent();
  }

  Function *body(CallInst &Plain, StructType *Frame) {
    FunctionType *T = FunctionType::get(R.Void, {R.Ptr}, false);
    Function *Body = Function::Create(T, GlobalValue::PrivateLinkage, Plain.getFunction()->getName() + ".refrain.assembly", R.M);
    Body->addFnAttr(Attribute::NoInline);
    Body->addFnAttr(Attribute::NoUnwind);
    Body->setUWTableKind(UWTableKind::Default);
    for (const char *Name : {"target-cpu", "target-features", "tune-cpu"})
      if (Plain.getFunction()->hasFnAttribute(Name))
        Body->addFnAttr(Plain.getFunction()->getFnAttribute(Name));
    IRBuilder<> B(BasicBlock::Create(R.C, "entry", Body));
    SmallVector<Value *, 8> Passed;
    unsigned Field = 0;
    for (const Use &A : Plain.args())
      Passed.push_back(isa<Constant>(A) ? A.get()
                                        : B.CreateLoad(A->getType(), B.CreateStructGEP(Frame, Body->getArg(0), Field++)));
    CallInst *Inner = B.CreateCall(&Asm, Passed);
    Inner->setAttributes(Plain.getAttributes());
    Inner->setMetadata("srcloc", Plain.getMetadata("srcloc"));
    if (!Plain.getType()->isVoidTy())
      B.CreateStore(Inner, B.CreateStructGEP(Frame, Body->getArg(0), Field));
    B.CreateRetVoid();
    return Body;
  }

  // Without a lock the statement only computes. It may do so on copies, if all it accesses are operands of its own, and what it
  // writes is no other operand at the same time.
  bool canWorkOnCopies() {
    if (Locked)
      return false;
    bool Writes = any_of(Places, [](const Place &P) { return P.Writes; });
    if (Writes && Places.size() > 1)
      return false;
    return all_of(Places, [&](const Place &P) {
      Type *T = P.Argument ? Call.getParamElementType(*P.Argument) : nullptr;
      uint64_t Bytes = T && T->isSized() ? R.DL.getTypeStoreSize(T).getFixedValue() : 0;
      return !P.Bit && Bytes && Bytes <= CopyBytesMax && P.Bytes <= Bytes && (!P.Writes || isOutput(*P.Argument));
    });
  }

  bool isOutput(unsigned Argument) {
    for (unsigned N = 0; N < Constraints.size(); N++)
      if (Arguments[N] == Argument)
        return Constraints[N].Type == InlineAsm::isOutput;
    return false;
  }

  void workOnCopies(CallInst &Plain) {
    IRBuilder<> Before(&Plain), After(Plain.getNextNode());
    After.SetCurrentDebugLocation(Plain.getDebugLoc());
    for (const Place &P : Places) {
      uint64_t Bytes = R.DL.getTypeStoreSize(Call.getParamElementType(*P.Argument));
      auto *Copy = new AllocaInst(ArrayType::get(R.I8, Bytes), 0, nullptr, Align(64), "refrain.copy",
                                  Plain.getFunction()->getEntryBlock().begin());
      Copy->setMetadata("refrain.scratch", MDNode::get(R.C, MDString::get(R.C, "refrain.copy")));
      Align Known = Plain.getParamAlign(*P.Argument).valueOrOne();
      // What it does not write of its place keeps what was there.
      Before.CreateMemCpy(Copy, Align(64), P.Pointer, Known, Bytes);
      if (P.Writes)
        After.CreateMemCpy(P.Pointer, Known, Copy, Align(64), Bytes);
      for (Use &A : Plain.args())
        if (A == P.Pointer && Plain.getParamElementType(Plain.getArgOperandNo(&A)))
          A.set(Copy);
    }
  }

  void list() { Sites.site(Call, abi::SiteKind::Assembly, 0); }

  CallBase &Call;
  InlineAsm &Asm;
  Filters &Keep;
  Runtime &R;
  SiteTable &Sites;
  InlineAsm::ConstraintInfoVector Constraints;
  // By the operand's number: which argument of the call it is.
  SmallVector<std::optional<unsigned>, 8> Arguments;
  SmallVector<Place, 2> Places;
  bool Simple = true, Locked = false, Unknown = false;
};

} // namespace

void observeAssembly(Function &F, Filters &Keep, Runtime &R, SiteTable &Sites, Why *Asked) {
  SmallVector<CallBase *, 8> Work;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->isInlineAsm() && !cast<InlineAsm>(Call->getCalledOperand())->getAsmString().empty())
      Work.push_back(Call);
  for (CallBase *Call : Work)
    Statement(*Call, Keep, R, Sites).observe(Asked);
}

} // namespace refrain
