// What `refrain cc --why FILE:LINE` asks: which accesses at a line are observed, how, and which are not, by which rule.
//
// Each access at such a line is looked at while its function is as the program wrote it, by the same `Filters` that decide. It gets a number as metadata, so
// that whatever is made of it (clones, loads and stores instead of a small memcpy) answers for it when groups and loops are formed. The
// driver says in REFRAIN_BUILD_WHY what is asked, and reads the answers from the file REFRAIN_BUILD_WHY_TO (`src/driver/why.rs`).
#pragma once

#include "accesses.h"
#include "options.h"
#include "reasons.h"
#include "sites.h"
#include <memory>
#include <vector>

namespace refrain {

// What becomes of a statement of inline assembly (assembly.cpp).
enum class AssemblyAs { Nothing, Event, Copies, Unobserved };

class Why {
public:
  // Null if nothing was asked.
  static std::unique_ptr<Why> asked(llvm::Module &M, const struct Options &Options, Filters &Keep, SiteTable &Sites, Names &Elements);

  // Before anything is done to any function, and after `Filters::enter`.
  void look(llvm::Function &F);
  // F is left as it is.
  void leaveOut(llvm::Function &F, llvm::StringRef Reason);

  // How what is observed is observed.
  void assembly(const llvm::CallBase &Call, AssemblyAs How);
  void inLoop(const Access &A, size_t Ranges, uint64_t IterationsMin);
  // IsCalled: each access has a call of its own check (quiet.h). InPlace: the function has no clone.
  void group(const std::vector<Access> &Group, bool IsCalled, bool InPlace);
  // In f.coop.
  void part(const std::vector<Access> &Group);

  // Writes the answers, and takes the numbers away.
  void write();

private:
  struct Place {
    std::string Typed, Absolute;
    uint32_t Line;
    bool HasFile = false, HasCode = false;
  };
  // The asked place, where the access counts as standing, and where it is written, if that is in code of a library.
  struct At {
    size_t Place;
    const llvm::DILocalScope *Scope;
    uint32_t Line, Column;
    const llvm::DILocation *Written;
  };
  struct Answer {
    size_t Asked;
    std::string File, Function, WrittenIn, Library, What, Element, Rule, Reason;
    uint32_t Line, Column;
    bool IsObserved;
    // How it is observed: by a check of its loop, otherwise by these (a copy is two accesses), and in recordings of a part.
    std::string Loop, Part;
    std::vector<std::string> How;
  };

  Why(llvm::Module &M, const struct Options &Options, Filters &Keep, SiteTable &Sites, Names &Elements)
      : M(M), Options(Options), Keep(Keep), Sites(Sites), Elements(Elements), Told(M) {}

  bool isOf(const Place &P, llvm::StringRef Path) const;
  std::optional<At> askedAt(const llvm::Instruction &I);
  std::optional<At> asked(At Here);
  void seeFiles();
  void answer(llvm::Instruction &I, const At &Asked);
  Answer *about(const llvm::Instruction &I);
  Answer &begin(llvm::Instruction &I, const At &Asked, std::string What, abi::SiteKind Kind);
  void observed(Answer &A, std::string Reason);
  static void how(Answer &A, std::string Sentence);
  static std::string allOf(const Answer &A);
  void notObserved(Answer &A, Rule R, std::string Reason);
  // By what the pointers among the operands point to; Observed: the filters said so of all of them.
  void memory(Answer &A, llvm::ArrayRef<const llvm::Value *> Pointers, const llvm::Function &F, bool IsObserved);
  std::string what(const llvm::Instruction &I, abi::SiteKind &Kind) const;
  void call(llvm::CallBase &Call, const At &Asked);
  void access(llvm::Instruction &I, const At &Asked);

  llvm::Module &M;
  const struct Options &Options;
  Filters &Keep;
  SiteTable &Sites;
  Names &Elements;
  Reasons Told;
  std::vector<Place> Places;
  std::vector<Answer> Answers;
};

} // namespace refrain
