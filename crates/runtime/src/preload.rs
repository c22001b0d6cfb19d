//! A program that was not built with refrain has us by `LD_PRELOAD`. That is nobody's business but the loader's: the program
//! does not see it. The programs that it executes have us in the same way, if they are to be recorded.
use crate::control;
use crate::executable;
use crate::executable::Executed;
use crate::policy;
use core::ffi::CStr;
use core::ffi::c_char;
use core::ffi::c_long;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

const NAME: &[u8] = b"LD_PRELOAD=";
/// Whatever its value.
const LISTING: &[u8] = b"LD_TRACE_LOADED_OBJECTS=";
/// What the names of glibc's loaders begin with.
const LOADER: &[u8] = b"ld-linux";
const LIBRARY: &[u8] = runtime_abi::RUNTIME_LIBRARY.as_bytes();

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Variables of a program that is executed, at most; with more it goes without us.
const VARIABLES_MAX: usize = 511;
/// Arguments of one that we load, ours included.
const ARGUMENTS_MAX: usize = 2047;
/// Bytes of the one variable.
const LIST_BYTES_MAX: usize = 4096;

/// Our path: a string that the loader keeps. 0: not known.
static PATH: AtomicUsize = AtomicUsize::new(0);

/// Once, before there is a second thread: finds out where we are.
pub fn remember() {
    // SAFETY: Dl_info is plain old data, which dladdr fills for an address of ours.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(remember as *const () as *const libc::c_void, &mut info) != 0 {
            PATH.store(info.dli_fname as usize, Relaxed);
        }
    }
}

/// Does this call execute a program that is to have us? Then, which argument has its path.
pub fn path_of(number: c_long) -> Option<usize> {
    let argument = match number {
        libc::SYS_execve => 0,
        libc::SYS_execveat => 1,
        _ => return None,
    };
    let is_wanted = policy::are_inputs_recorded() && control::inputs_only() && control::root().settings.follow.is(true);
    is_wanted.then_some(argument)
}

/// Calls `action` with the arguments of a call for which `path_of` said `path`, and us in what is executed. Everything is on the
/// stack: whoever calls may share its memory with another process. So it is out of line: a thread that ends gives back all of its stack but for 16 KiB,
/// by a call that comes through the same function as these.
///
/// # Safety
/// As execve demands of its arguments.
#[inline(never)]
pub unsafe fn executing<R>(arguments: &[usize; 6], path: usize, action: impl FnOnce(&[usize; 6]) -> R) -> R {
    let mut changed = *arguments;
    // SAFETY: the caller promises what execve demands of its arguments.
    unsafe {
        let is_loader = is_loader(arguments, path);
        if is_only_listed(arguments[path + 2] as *const *const c_char) || (is_loader && has_option(arguments, path)) {
            return action(arguments);
        }
        if !is_loader && let Some((name, executed)) = hosted(arguments, path) {
            return with_host(&executed, name, arguments, path, |path_of_host, list| {
                changed[path] = path_of_host as usize;
                changed[path + 1] = list as usize;
                action(&changed)
            });
        }
        with_us(arguments[path + 2] as *const *const c_char, |variables| {
            changed[path + 2] = variables as usize;
            action(&changed)
        })
    }
}

/// Does the loader only list what it would load (as for `ldd`)? Nothing runs then, and we are not to be in the list.
///
/// # Safety
/// `variables` is null, or a list of strings.
unsafe fn is_only_listed(variables: *const *const c_char) -> bool {
    let mut variable = variables;
    // SAFETY: the caller promises that `variables` is null, or a list of strings.
    unsafe {
        while !variable.is_null() && !(*variable).is_null() {
            if CStr::from_ptr(*variable).to_bytes().starts_with(LISTING) {
                return true;
            }
            variable = variable.add(1);
        }
    }
    false
}

/// Is it the loader itself, which is given a program, and loads us for that?
///
/// # Safety
/// As execve demands of its arguments.
unsafe fn is_loader(arguments: &[usize; 6], path: usize) -> bool {
    if arguments[path] == 0 {
        return false;
    }
    // SAFETY: the caller promises what execve demands of its arguments.
    let name = unsafe { CStr::from_ptr(arguments[path] as *const c_char) }.to_bytes();
    let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    file.starts_with(LOADER)
}

/// Is the first argument behind the name an option? Those of the loader make it list or check a program.
///
/// # Safety
/// As execve demands of its arguments.
unsafe fn has_option(arguments: &[usize; 6], path: usize) -> bool {
    let list = arguments[path + 1] as *const *const c_char;
    // SAFETY: the caller promises what execve demands of its arguments: a list of strings that ends with null.
    unsafe {
        !list.is_null()
            && !(*list).is_null()
            && !(*list.add(1)).is_null()
            && CStr::from_ptr(*list.add(1)).to_bytes().starts_with(b"--")
    }
}

/// Is it a program, or a script for one, that we have to load (`host`)? One that is executed by a descriptor is not looked at.
///
/// # Safety
/// As execve demands of its arguments.
unsafe fn hosted<'a>(arguments: &[usize; 6], path: usize) -> Option<(&'a CStr, Executed)> {
    let is_by_name = path == 0 || arguments[0] as i32 == libc::AT_FDCWD;
    if arguments[path] == 0 || arguments[path + 1] == 0 || PATH.load(Relaxed) == 0 || !is_by_name {
        return None;
    }
    // SAFETY: the caller promises what execve demands of its arguments.
    let name = unsafe { CStr::from_ptr(arguments[path] as *const c_char) };
    let executed = Executed::of(name);
    executable::needs_host(executed.program(name)).then_some((name, executed))
}

/// Calls `action` with our path, and a list in which the program's own and its arguments follow ours.
///
/// # Safety
/// As execve demands of its arguments.
unsafe fn with_host<R>(
    executed: &Executed,
    name: &CStr,
    arguments: &[usize; 6],
    path: usize,
    action: impl FnOnce(*const c_char, *const *const c_char) -> R,
) -> R {
    let own = PATH.load(Relaxed) as *const c_char;
    let mut places = [core::ptr::null::<c_char>(); ARGUMENTS_MAX + 1];
    (places[0], places[1]) = (own, executed.program(name).as_ptr());
    let mut count = 2;
    executed.each_leading(name, |leading| {
        places[count] = leading;
        count += 1;
    });
    let mut argument = arguments[path + 1] as *const *const c_char;
    // SAFETY: the caller promises what execve demands of its arguments.
    unsafe {
        if count > 2 && !(*argument).is_null() {
            // The name that a script was called by.
            argument = argument.add(1);
        }
        while !(*argument).is_null() {
            if count == ARGUMENTS_MAX {
                // It goes without us, and the run says so.
                control::note_unrecorded();
                return action(
                    arguments[path] as *const c_char,
                    arguments[path + 1] as *const *const c_char,
                );
            }
            places[count] = *argument;
            count += 1;
            argument = argument.add(1);
        }
    }
    action(own, places.as_ptr())
}

/// Calls `action` with `variables`, a list as execve has it, and us in `LD_PRELOAD`: as the first of that list.
///
/// # Safety
/// `variables` is null, or a list of strings.
unsafe fn with_us<R>(variables: *const *const c_char, action: impl FnOnce(*const *const c_char) -> R) -> R {
    let mut list = [0u8; LIST_BYTES_MAX];
    let mut places = [core::ptr::null::<c_char>(); VARIABLES_MAX + 1];
    let path = PATH.load(Relaxed) as *const c_char;
    if variables.is_null() || path.is_null() {
        return action(variables);
    }
    let mut count = 1;
    let mut others: &[u8] = b"";
    // SAFETY: the caller promises that `variables` is null, or a list of strings; the loader keeps our path for the life of the process.
    let path = unsafe {
        let mut variable = variables;
        while !(*variable).is_null() {
            match CStr::from_ptr(*variable).to_bytes().strip_prefix(NAME) {
                Some(value) => others = value,
                // Room is left for the null at the end.
                None if count == VARIABLES_MAX => {
                    control::note_unrecorded();
                    return action(variables);
                }
                None => {
                    places[count] = *variable;
                    count += 1;
                }
            }
            variable = variable.add(1);
        }
        CStr::from_ptr(path).to_bytes()
    };
    let separator: &[u8] = if others.is_empty() { b"" } else { b":" };
    let mut length = 0;
    for part in [NAME, path, separator, others] {
        // One byte less than there is room for: the end is a zero.
        if length + part.len() >= LIST_BYTES_MAX {
            control::note_unrecorded();
            return action(variables);
        }
        list[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    }
    places[0] = list.as_ptr().cast();
    action(places.as_ptr())
}

/// Takes us out of `LD_PRELOAD`, if the tool put us there: always as the first of the list. Once, before there is a second
/// thread. In place, so that no address changes.
pub fn hide() {
    // SAFETY: the list of pointers to strings that the kernel made; nobody else uses it now.
    unsafe {
        let mut place = environ;
        if place.is_null() {
            return;
        }
        while !(*place).is_null() {
            match is_ours(*place) {
                Some(rest) if *rest == 0 => return remove(place),
                Some(rest) => return copy_down(rest, (*place).add(NAME.len())),
                None => place = place.add(1),
            }
        }
    }
}

/// What follows us in the list, if this is the variable and begins with us.
///
/// # Safety
/// `variable` is a string.
unsafe fn is_ours(variable: *const c_char) -> Option<*const c_char> {
    // SAFETY: the caller promises that `variable` is a string; nothing behind the end is read.
    unsafe {
        let text = CStr::from_ptr(variable).to_bytes();
        let list = text.strip_prefix(NAME)?;
        let first = list.split(|byte| *byte == b':').next()?;
        let name = first.rsplit(|byte| *byte == b'/').next()?;
        let followed = first.len() < list.len();
        (name == LIBRARY).then(|| variable.add(NAME.len() + first.len() + followed as usize))
    }
}

/// # Safety
/// `place` is in a list of pointers that ends with null.
unsafe fn remove(mut place: *mut *mut c_char) {
    // SAFETY: the caller promises that `place` is in a list of pointers that ends with null.
    unsafe {
        while !(*place).is_null() {
            *place = *place.add(1);
            place = place.add(1);
        }
    }
}

/// # Safety
/// `from` is the end of a string, `to` a place before it.
unsafe fn copy_down(mut from: *const c_char, mut to: *mut c_char) {
    // SAFETY: the caller promises that `from` is the end of a string, `to` a place before it; the terminating zero is copied, too.
    unsafe {
        loop {
            *to = *from;
            if *from == 0 {
                return;
            }
            (from, to) = (from.add(1), to.add(1));
        }
    }
}
