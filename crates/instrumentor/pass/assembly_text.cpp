#include "assembly_text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace refrain {

namespace {

// "$(for AT&T$|for Intel$)" is one or the other.
std::string chosen(StringRef Text) {
  std::string Out;
  bool Inside = false, Skipped = false;
  for (size_t I = 0; I < Text.size(); I++) {
    if (Text[I] == '$' && I + 1 < Text.size() && StringRef("(|)").contains(Text[I + 1])) {
      char Mark = Text[++I];
      Inside = Mark != ')';
      Skipped = Inside && Mark == '|';
    } else if (Text[I] == '$' && I + 1 < Text.size() && Text[I + 1] == '$') {
      if (!Skipped)
        Out += "$$";
      I++;
    } else if (!Skipped) {
      Out.push_back(Text[I]);
    }
  }
  return Out;
}

bool isName(char C) { return isAlnum(C) || C == '_' || C == '.' || C == '$'; }

// Takes a label off the front of a line: "1:", ".Lagain${:uid}:".
bool dropLabel(StringRef &Line) {
  size_t End = 0;
  while (End < Line.size() && (isName(Line[End]) || Line.substr(End).starts_with("{:uid}")))
    End += Line.substr(End).starts_with("{:uid}") ? 6 : 1;
  if (!End || End >= Line.size() || Line[End] != ':')
    return false;
  // A segment of an address is not a label.
  Line = Line.drop_front(End + 1).ltrim();
  return true;
}

bool isPrefix(StringRef Word) {
  return Word == "lock" || Word.starts_with("rep") || Word == "xacquire" || Word == "xrelease" || Word == "data16" || Word == "notrack";
}

SmallVector<std::string, 3> operandsOf(StringRef Text) {
  SmallVector<std::string, 3> Out;
  unsigned Depth = 0;
  std::string Current;
  for (char C : Text) {
    Depth += C == '(';
    Depth -= C == ')' && Depth;
    if (C == ',' && !Depth) {
      Out.push_back(StringRef(Current).trim().str());
      Current.clear();
    } else {
      Current.push_back(C);
    }
  }
  if (!StringRef(Current).trim().empty())
    Out.push_back(StringRef(Current).trim().str());
  return Out;
}

bool isJump(StringRef Mnemonic) { return Mnemonic.starts_with("j") || Mnemonic.starts_with("loop"); }

// "$3" or "${3:k}"; false for anything else.
bool operandNumber(StringRef Text, unsigned &Number, char &Modifier) {
  Modifier = 0;
  if (!Text.consume_front("$"))
    return false;
  if (Text.consume_front("{")) {
    if (!Text.consume_back("}"))
      return false;
    auto [Digits, Rest] = Text.split(':');
    if (Rest.size() > 1)
      return false;
    Modifier = Rest.empty() ? 0 : Rest[0];
    Text = Digits;
  }
  return !Text.getAsInteger(10, Number);
}

std::optional<AddressPart> addressPart(StringRef Text) {
  Text = Text.trim();
  unsigned Number = 0;
  char Modifier = 0;
  if (Text.consume_front("%"))
    return AddressPart{std::nullopt, Text.lower()};
  if (operandNumber(Text, Number, Modifier) && (!Modifier || Modifier == 'q'))
    return AddressPart{Number, ""};
  return std::nullopt;
}

// The name without the letter for a size.
StringRef withoutSuffix(StringRef Name) {
  return !Name.empty() && StringRef("bwlq").contains(Name.back()) ? Name.drop_back() : Name;
}

bool isOneOf(StringRef Mnemonic, const StringSet<> &Names) {
  return Names.contains(Mnemonic) || Names.contains(withoutSuffix(Mnemonic));
}

} // namespace

AssemblyText parseAssembly(StringRef Source) {
  AssemblyText Out;
  std::string Text = chosen(Source);
  SmallVector<StringRef, 8> Lines;
  SplitString(Text, Lines, "\n;");
  SmallVector<std::string, 4> Labels;
  bool Locked = false;
  for (StringRef Line : Lines) {
    Line = Line.split('#').first.split("//").first.trim();
    if (Line.contains("/*")) {
      Out.Understood = false;
      return Out;
    }
    StringRef Whole = Line;
    while (dropLabel(Line)) {
      Labels.push_back(Whole.split(':').first.str());
      Whole = Line;
    }
    while (!Line.empty()) {
      size_t End = Line.find_first_of(" \t");
      StringRef Word = Line.substr(0, End);
      if (Word.starts_with(".")) {
        // Alignment is nothing to us; sections, macros and repetitions are more than instructions.
        Out.Understood &= Word.starts_with(".p2align") || Word.starts_with(".align") || Word.starts_with(".balign");
        break;
      }
      std::string Name = Word.lower();
      Line = End == StringRef::npos ? "" : Line.substr(End).ltrim();
      if (isPrefix(Name)) {
        Locked |= Name == "lock";
        // "rep; nop" is pause; before anything else it repeats a string instruction, which is known by its own name.
        continue;
      }
      AssemblyInstruction I;
      I.Locked = Locked;
      I.Mnemonic = Name;
      I.Operands = operandsOf(Line);
      Locked = false;
      if (isJump(Name) && I.Operands.size() == 1) {
        StringRef To = I.Operands[0];
        Out.Loops |= (To.ends_with("b") && To.size() > 1 && all_of(To.drop_back(), isDigit)) || is_contained(Labels, To);
      }
      Out.Instructions.push_back(std::move(I));
      break;
    }
  }
  return Out;
}

std::optional<MemoryText> parseOperand(StringRef Operand, bool &Understood) {
  MemoryText Out;
  unsigned Number = 0;
  char Modifier = 0;
  if (Operand.starts_with("$$") || (Operand.starts_with("%") && !Operand.contains(':') && !Operand.contains('(')))
    return std::nullopt;
  // A label that is jumped to, or the pointer that is called, is the instruction's own matter.
  if (operandNumber(Operand, Number, Modifier)) {
    if (Modifier == 'a') {
      Out.Base = AddressPart{Number, ""};
      return Out;
    }
    // 'H' is the place behind; 'c', 'P' and their like print a symbol.
    if (Modifier && !StringRef("bhwkqxtgz").contains(Modifier)) {
      Understood = false;
      return std::nullopt;
    }
    Out.Operand = Number;
    return Out;
  }
  if (Operand.consume_front("%")) {
    // A segment: the thread's own block.
    auto [Segment, Rest] = Operand.split(':');
    if (Segment == "fs" || Segment == "gs") {
      Out.Base = AddressPart{std::nullopt, Segment.str()};
      return Out;
    }
    Understood = false;
    return std::nullopt;
  }
  auto [Before, Rest] = Operand.split('(');
  Before = Before.trim();
  if (!Rest.consume_back(")") || Rest.contains('(') || (!Before.empty() && Before.getAsInteger(0, Out.Displacement))) {
    Understood = false;
    return std::nullopt;
  }
  SmallVector<StringRef, 3> Parts;
  Rest.split(Parts, ',');
  Out.Base = addressPart(Parts[0]);
  if (!Out.Base || Parts.size() > 3)
    Understood = false;
  if (Parts.size() > 1 && !(Out.Index = addressPart(Parts[1])))
    Understood = false;
  if (Parts.size() > 2 && Parts[2].trim().getAsInteger(10, Out.Scale))
    Understood = false;
  return Out;
}

std::optional<Treatment> treatment(const AssemblyInstruction &I, unsigned At) {
  static const StringSet<> Updates = {"add", "sub", "and", "or",  "xor", "inc", "dec", "neg",  "not",     "adc",       "sbb",
                                      "bts", "btr", "btc", "shl", "shr", "sar", "sal", "rol",  "ror",     "rcl",       "rcr",
                                      "xadd", "cmpxchg", "cmpxchg8b", "cmpxchg16b"};
  static const StringSet<> Compares = {"cmp", "test", "bt"};
  static const StringSet<> Readers = {"mul",     "imul",   "div",   "idiv",  "fld",   "flds",    "fldl",   "fldt",  "fild",
                                      "fildl",   "fildll", "fadd",  "fmul",  "ldmxcsr", "fldcw", "popcnt", "lzcnt", "tzcnt",
                                      "bsf",     "bsr",    "crc32", "mulx",  "adcx",    "adox",  "push"};
  static const StringSet<> Writers = {"stmxcsr", "fnstcw", "fstcw", "fnstsw", "fstsw", "fst", "fstp", "fsts", "fstps", "fstl",
                                      "fstpl",   "fstpt",  "fist",  "fistp",  "fistl", "fistpl", "fistpll", "fisttpll"};
  StringRef Name = I.Mnemonic;
  bool Last = At + 1 == I.Operands.size();
  if (withoutSuffix(Name) == "xchg" || Name == "xchg")
    return Treatment{Effect::Both, Manner::Simple};
  if (isOneOf(Name, Updates))
    return Treatment{Last ? Effect::Both : Effect::Reads, Manner::Simple};
  if (isOneOf(Name, Compares))
    return Treatment{Effect::Reads, Manner::Simple};
  if (Name == "mov" || Name == "movb" || Name == "movw" || Name == "movl" || Name == "movq" || Name == "movabs" || Name == "movabsq" ||
      Name == "movnti" || Name == "movbe")
    return Treatment{Last ? Effect::Writes : Effect::Reads, Manner::Simple};
  // Widening moves; those of strings have no operands.
  if (I.Operands.size() == 2 && !Last && (Name.starts_with("movz") || Name.starts_with("movs") || Name.starts_with("cmov")))
    return Treatment{Effect::Reads, Manner::Simple};
  if (Name.starts_with("set") && Last)
    return Treatment{Effect::Writes, Manner::Simple};
  if (isOneOf(Name, Writers))
    return Treatment{Effect::Writes, Manner::Other};
  if (isOneOf(Name, Readers))
    return Treatment{Effect::Reads, Manner::Other};
  if (Name.starts_with("mov") || Name.starts_with("vmov"))
    return Treatment{Last ? Effect::Writes : Effect::Reads, Manner::Other};
  // Whatever it computes, it does so into its last operand, and only moves and updates have memory there.
  if (I.Operands.size() >= 2 && !Last)
    return Treatment{Effect::Reads, Manner::Other};
  return std::nullopt;
}

unsigned bytesByName(const AssemblyInstruction &I) {
  StringRef Name = I.Mnemonic;
  if (Name == "cmpxchg16b")
    return 16;
  if (Name == "cmpxchg8b")
    return 8;
  if (Name.starts_with("set"))
    return 1;
  // Widening moves name two sizes, the first of which is that of the memory; "sub" has no size, "subb" has.
  if ((Name.starts_with("movz") || Name.starts_with("movs")) && Name.size() >= 5)
    return Name[4] == 'b' ? 1 : Name[4] == 'w' ? 2 : Name[4] == 'l' ? 4 : 0;
  static const StringSet<> Bare = {"sub", "shl", "sal", "rol", "rcl", "mul", "imul", "add", "and"};
  if (Bare.contains(Name) || Name.starts_with("cmov"))
    return 0;
  switch (Name.back()) {
  case 'b':
    return 1;
  case 'w':
    return 2;
  case 'l':
    return 4;
  case 'q':
    return 8;
  default:
    return 0;
  }
}

bool onlyNamesAddress(StringRef Mnemonic) {
  return Mnemonic.starts_with("lea") || Mnemonic.starts_with("prefetch") || Mnemonic.starts_with("clflush") || Mnemonic == "clwb" ||
         Mnemonic.starts_with("nop") || Mnemonic == "invlpg";
}

bool accessesImplicitly(StringRef Mnemonic) {
  static const StringSet<> Names = {"movsb", "movsw", "movsd", "movsl", "movsq", "stosb", "stosw", "stosd", "stosl", "stosq",
                                    "lodsb", "lodsw", "lodsd", "lodsl", "lodsq", "cmpsb", "cmpsw", "cmpsd", "cmpsl", "cmpsq",
                                    "scasb", "scasw", "scasd", "scasl", "scasq", "xlat",  "xlatb", "maskmovdqu", "call", "callq"};
  return Names.contains(Mnemonic);
}

bool isOwnRegister(StringRef Register) {
  return Register == "rsp" || Register == "rbp" || Register == "esp" || Register == "ebp" || Register == "fs" || Register == "gs";
}

} // namespace refrain
