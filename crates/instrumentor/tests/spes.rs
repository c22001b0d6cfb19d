//! Names of shared program elements, as the pass finds them in small programs.
mod support;

use instrumentor::driver::Language;
use instrumentor::sites::SiteKind;
use instrumentor::sites::SiteTable;
use instrumentor::spes::SpeKind;
use instrumentor::spes::SpeList;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use support::directory;
use support::native;
use support::refrain;
use support::run_ok;
use support::toolchain;

const BANK_H: &str = r#"
#include <pthread.h>
struct account {
    long id;
    long balance;
    pthread_mutex_t mutex;
    struct { int day, month; } opened;
    union { int number; char *text; };
    int history[4];
    unsigned frozen : 3, closed : 5;
    short rest[];
};
typedef struct { int branch; struct account inner; } office;
extern struct account elsewhere;
"#;

const BANK_C: &str = r#"
#include "bank.h"
#include <stdlib.h>
struct account accounts[4];
struct account elsewhere;
static int counter;
int table[10];
office head;
_Thread_local int mine;
pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
int *memory[3];
int next(void) { static int calls; return calls++; }
int *give(int *p) { ++*p; return &counter; }
int *own(void) { return &mine; }
void use(struct account *p, office *o, int k) {
    counter++; table[k]++; mine++; head.branch++; elsewhere.balance++;
    pthread_mutex_lock(&all);
    pthread_mutex_lock(&p->mutex);
    p->balance += o->inner.id;
    accounts[k].id++; accounts[2].balance++;
    p->opened.month++; p->number++; p->history[k]++; p->closed++; p->rest[k]++; o->branch++;
    pthread_mutex_unlock(&accounts[k].mutex);
    pthread_mutex_unlock(&all);
}
void allocate(void) {
    memory[0] = malloc(40);
    memory[1] = calloc(1, 8), memory[2] = malloc(4);
}
"#;

const OTHER_C: &str = r#"
#include "bank.h"
static int counter;
int *leak(void) { return &counter; }
void deposit(struct account *a) { a->balance++; elsewhere.id++; counter++; }
"#;

/// What C programs show at every level of optimisation.
const BANK: &[(SpeKind, &str)] = &[
    (SpeKind::Global, "calls (next)"),
    (SpeKind::Global, "counter (bank.c)"),
    (SpeKind::Global, "memory"),
    (SpeKind::Global, "mine"),
    (SpeKind::Global, "table"),
    (SpeKind::Field, "account.balance"),
    (SpeKind::Field, "account.frozen"),
    (SpeKind::Field, "account.history"),
    (SpeKind::Field, "account.id"),
    (SpeKind::Field, "account.number|text"),
    (SpeKind::Field, "account.opened.month"),
    (SpeKind::Field, "account.rest"),
    (SpeKind::Field, "office.branch"),
    (SpeKind::Array, "allocated at bank.c:26 (allocate)"),
    (SpeKind::Array, "allocated at bank.c:27:17 (allocate)"),
    (SpeKind::Array, "allocated at bank.c:27:43 (allocate)"),
    (SpeKind::Lock, "account.mutex"),
    (SpeKind::Lock, "all"),
];

/// A fresh directory with these sources.
fn project(name: &str, sources: &[(&str, &str)]) -> PathBuf {
    let path = directory("spes").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    for (file, text) in sources {
        fs::write(path.join(file), text).unwrap();
    }
    path
}

fn bank(name: &str) -> PathBuf {
    project(name, &[("bank.h", BANK_H), ("bank.c", BANK_C), ("other.c", OTHER_C)])
}

fn compile(at: &Path, language: Language, line: &str) {
    let arguments: Vec<&str> = line.split(' ').collect();
    run_ok(refrain(language, &arguments).current_dir(at));
}

fn list(objects: &[PathBuf]) -> SpeList {
    let tables: Vec<SiteTable> = objects.iter().map(|path| SiteTable::read(path).unwrap()).collect();
    SpeList::of(&tables)
}

fn names(list: &SpeList) -> Vec<(SpeKind, &str)> {
    list.elements
        .iter()
        .map(|listed| (listed.spe.kind, listed.spe.name.as_str()))
        .collect()
}

fn id(list: &SpeList, kind: SpeKind, name: &str) -> u32 {
    let found = list
        .elements
        .iter()
        .find(|l| (l.spe.kind, l.spe.name.as_str()) == (kind, name));
    found
        .unwrap_or_else(|| panic!("no {kind} {name} in {:#?}", names(list)))
        .spe
        .id
}

#[test]
fn the_same_names_at_every_level_of_optimisation() {
    let at = bank("levels");
    for options in [
        "-O0",
        "-O0 -g",
        "-O1",
        "-O2",
        "-O2 -g",
        "-O3",
        "-O2 -g1",
        "-O2 -fno-strict-aliasing",
    ] {
        compile(&at, Language::C, &format!("{options} -c bank.c -o bank.o"));
        let list = list(&[at.join("bank.o")]);
        assert_eq!(names(&list), BANK, "{options}");
        // `++*p` is all that does not say what it accesses.
        assert_eq!(list.sites_indefinite, 2, "{options}");
        assert!(list.collisions().is_empty());
        let counter = &list.elements[1].spe;
        assert!(
            counter.file.ends_with("levels/bank.c") && counter.line == 6,
            "{counter:?}"
        );
        let balance = &list.elements[5].spe;
        assert!(
            balance.file.ends_with("levels/bank.h") && balance.line == 5,
            "{balance:?}"
        );
    }
}

#[test]
fn types_that_were_borrowed_for_names_are_given_back() {
    let at = bank("borrowed");
    let sections = |object: &str| {
        let text = run_ok(
            std::process::Command::new("llvm-dwarfdump-22")
                .arg("--debug-info")
                .arg(at.join(object)),
        );
        String::from_utf8_lossy(&text.stdout).into_owned()
    };
    for level in ["-O0", "-O2"] {
        compile(&at, Language::C, &format!("{level} -c bank.c -o lines.o"));
        compile(&at, Language::C, &format!("{level} -g -c bank.c -o types.o"));
        assert!(!sections("lines.o").contains("DW_TAG_structure_type"), "{level}");
        assert!(sections("types.o").contains("DW_TAG_structure_type"), "{level}");
    }
}

#[test]
fn a_field_is_one_element_in_all_modules() {
    let at = bank("modules");
    compile(&at, Language::C, "-O2 -c bank.c -o bank.o");
    compile(&at, Language::C, "-O0 -fPIC -shared other.c -o other.so");
    let (one, other) = (list(&[at.join("bank.o")]), list(&[at.join("other.so")]));
    let balance = |l: &SpeList| id(l, SpeKind::Field, "account.balance");
    assert_eq!(balance(&one), balance(&other));
    assert_ne!(balance(&one), id(&one, SpeKind::Field, "account.id"));
    // A field and a lock of the same name would be two.
    let both = list(&[at.join("bank.o"), at.join("other.so")]);
    assert_eq!(both.elements.len(), BANK.len() + 1);
    assert_ne!(
        id(&both, SpeKind::Global, "counter (bank.c)"),
        id(&both, SpeKind::Global, "counter (other.c)")
    );
    let sites = |l: &SpeList| {
        l.elements
            .iter()
            .find(|e| e.spe.name == "account.balance")
            .unwrap()
            .sites
    };
    assert_eq!(sites(&both), sites(&one) + sites(&other));
    // Ids are no accident of this build: kind 2, then the name, FNV-1a folded to 32 bits.
    let mut hash: u64 = 0xcbf29ce484222325;
    for byte in [2].into_iter().chain("account.balance".bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3);
    }
    assert_eq!(balance(&one), (hash ^ (hash >> 32)) as u32);
}

/// Somebody else's compiler options, with line tables only: fields are known by their offset.
#[test]
fn without_types_fields_are_offsets() {
    let at = bank("offsets");
    for level in ["-O0", "-O2"] {
        run_ok(
            native(Language::C)
                .current_dir(&at)
                .arg(format!("-fpass-plugin={}", toolchain().pass.display()))
                .args([level, "-gline-tables-only", "-c", "bank.c", "-o", "bank.o"]),
        );
        let list = list(&[at.join("bank.o")]);
        id(&list, SpeKind::Field, "account+8");
        id(&list, SpeKind::Field, "office+0");
        id(&list, SpeKind::Lock, "account+16");
        id(&list, SpeKind::Lock, "all");
        id(&list, SpeKind::Global, "table");
        id(&list, SpeKind::Array, "allocated at bank.c:26 (allocate)");
    }
}

const SHOP: &str = r#"
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>
namespace shop {
struct Base { virtual int get(); int base; };
struct Stock : Base {
    int amount;
    std::atomic<int> hits;
    std::mutex guard;
    std::vector<int> log;
    static int all;
    void take();
};
namespace { struct Hidden { int value; }; }
}
template <class T> struct Box { T value; void set(T t) { value = t; } };
std::atomic<int> total;
std::mutex gate;
Box<int> *ints;
int shop::Stock::all;
int shop::Base::get() { return base; }
void shop::Stock::take() {
    std::lock_guard<std::mutex> hold(guard);
    amount++; base++; hits++; all++;
    log.push_back(3);
}
void other(shop::Stock *stock, Box<int> *a, Box<long> *b, void *hidden) {
    stock->hits++; total++; static_cast<shop::Hidden *>(hidden)->value += stock->get();
    std::lock_guard<std::mutex> hold(gate);
    a->set(3); b->set(4);
    ints = new Box<int>;
}
struct Link { Link *next; std::atomic<int> seen; std::mutex mutex; std::unique_ptr<Link> child; };
void follow(Link *l, Link **all) {
    l->next->seen++;
    std::lock_guard<std::mutex> hold(all[3]->child->mutex);
}
void start(void (*)(void *), void *);
int wait() {
    int done = 0;
    auto work = [&done] { done++; };
    start([](void *p) { (*static_cast<decltype(work) *>(p))(); }, &work);
    return done;
}
"#;

#[test]
fn classes_have_qualified_names() {
    let at = project("classes", &[("shop.cpp", SHOP)]);
    for level in ["-O0", "-O2", "-O2 -g"] {
        compile(&at, Language::Cxx, &format!("{level} -c shop.cpp -o shop.o"));
        let list = list(&[at.join("shop.o")]);
        for (kind, name) in [
            (SpeKind::Field, "shop::Base.base"),
            (SpeKind::Field, "shop::Base.vptr"),
            (SpeKind::Field, "shop::Stock.amount"),
            (SpeKind::Field, "shop::(anonymous namespace)::Hidden.value"),
            (SpeKind::Field, "Box<int>.value"),
            (SpeKind::Field, "Box<long>.value"),
            (SpeKind::Field, "lambda at shop.cpp:43.done"),
            (SpeKind::Global, "shop::Stock::all"),
            (SpeKind::Global, "ints"),
            (SpeKind::Array, "allocated at shop.cpp:33 (other)"),
            (SpeKind::Other, "done (wait)"),
        ] {
            id(&list, kind, name);
        }
    }
    // Where the library's code is inlined, its objects are called what the program calls them.
    let list = list(&[at.join("shop.o")]);
    for (kind, name) in [
        (SpeKind::Global, "total"),
        (SpeKind::Field, "shop::Stock.hits"),
        (SpeKind::Field, "shop::Stock.log"),
        (SpeKind::Field, "Link.seen"),
        (SpeKind::Lock, "Link.mutex"),
        (SpeKind::Lock, "gate"),
        (SpeKind::Lock, "shop::Stock.guard"),
        (SpeKind::Array, "allocated at shop.cpp:27 (shop::Stock::take)"),
    ] {
        id(&list, kind, name);
    }
}

#[test]
fn allocations_that_are_optimised_away_still_count() {
    let text = "#include <stdlib.h>\nint *p;\nvoid f(void) {\n    free(malloc(9)); p = malloc(4);\n}\n";
    let at = project("gone", &[("gone.c", text)]);
    for (level, sites) in [("-O0", 2), ("-O2", 1)] {
        compile(&at, Language::C, &format!("{level} -c gone.c -o gone.o"));
        let list = list(&[at.join("gone.o")]);
        id(&list, SpeKind::Array, "allocated at gone.c:4:26 (f)");
        let arrays = list.elements.iter().filter(|listed| listed.spe.kind == SpeKind::Array);
        assert_eq!(arrays.count(), sites, "{level}");
    }
}

#[test]
fn every_allocation_function_leaves_its_site() {
    let text = r#"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
void *kept[12];
void all(size_t n, const char *s) {
    kept[0] = malloc(n);
    kept[1] = calloc(n, 2);
    kept[2] = realloc(kept[0], n);
    kept[3] = reallocarray(kept[1], n, 2);
    kept[4] = aligned_alloc(64, n);
    posix_memalign(&kept[5], 64, n);
    kept[6] = memalign(64, n);
    kept[7] = valloc(n);
    kept[8] = strdup(s);
    kept[9] = strndup(s, n);
}
"#;
    let cxx = r#"
#include <new>
void *kept[6];
void all(unsigned long n) {
    kept[0] = new int;
    kept[1] = new char[n];
    kept[2] = new (std::nothrow) int;
    kept[3] = new (std::nothrow) char[n];
    struct alignas(64) Wide { char bytes[64]; };
    kept[4] = new Wide;
    kept[5] = new (std::nothrow) Wide[n];
}
"#;
    let at = project("allocations", &[("a.c", text), ("b.cpp", cxx)]);
    for level in ["-O0", "-O2"] {
        for (language, file, lines) in [
            (Language::C, "a.c", (7..=16).collect::<Vec<u32>>()),
            (Language::Cxx, "b.cpp", vec![5, 6, 7, 8, 10, 11]),
        ] {
            compile(&at, language, &format!("{level} -D_GNU_SOURCE -c {file} -o it.o"));
            let table = SiteTable::read(&at.join("it.o")).unwrap();
            let mut found: Vec<u32> = table
                .iter()
                .filter(|(_, site)| site.kind == SiteKind::Allocation)
                .map(|(_, site)| site.line)
                .collect();
            found.sort_unstable();
            assert_eq!(found, lines, "{file} {level}");
            for (_, site) in table.iter().filter(|(_, site)| site.kind == SiteKind::Allocation) {
                let spe = table.elements().find(|spe| spe.id == site.element).unwrap();
                let expected = format!("allocated at {file}:{} (all)", site.line);
                assert_eq!((spe.kind, spe.name, spe.line), (SpeKind::Array, expected, site.line));
            }
        }
    }
}
