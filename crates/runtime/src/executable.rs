//! A program's file, as far as we read it ourselves.
use crate::sys;
use core::ffi::CStr;
use core::ffi::c_char;
use program_image::HEAD_BYTES;
use program_image::INTERPRETER_BYTES_MAX;
use program_image::Image;
use program_image::Loader;
use program_image::script::LINE_BYTES_MAX;
use program_image::script::Line;
use program_image::script::NESTED_MAX;

/// Set-user-id and set-group-id.
const GIVES_RIGHTS: u32 = 0o6000;

/// An open program, with what its file begins with.
pub struct Opened {
    pub file: i32,
    head: [u8; HEAD_BYTES],
    bytes: usize,
}

impl Opened {
    pub fn open(path: &CStr) -> Result<Opened, i32> {
        let file = sys::open(path.to_bytes_with_nul(), libc::O_RDONLY)?;
        let mut opened = Opened {
            file,
            head: [0; HEAD_BYTES],
            bytes: 0,
        };
        opened.bytes = read_at(file, &mut opened.head, 0);
        Ok(opened)
    }

    pub fn head(&self) -> &[u8] {
        &self.head[..self.bytes]
    }

    /// The name of its loader, with the terminating zero.
    pub fn interpreter<'a>(&self, image: &Image, name: &'a mut [u8; INTERPRETER_BYTES_MAX + 1]) -> Option<&'a CStr> {
        let (offset, bytes) = image.interpreter?;
        let got = read_at(self.file, &mut name[..bytes.min(INTERPRETER_BYTES_MAX)], offset);
        name[got] = 0;
        CStr::from_bytes_until_nul(name).ok()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        sys::close(self.file);
    }
}

pub fn read_at(file: i32, buffer: &mut [u8], offset: u64) -> usize {
    let arguments = [
        file as usize,
        buffer.as_mut_ptr() as usize,
        buffer.len(),
        offset as usize,
        0,
        0,
    ];
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let got = unsafe { sys::syscall(libc::SYS_pread64, arguments) };
    got.max(0) as usize
}

/// What is executed if a path is: the program itself, or, if it is a script, its interpreter.
pub struct Executed {
    /// The lines of scripts, the outermost first: the interpreter's name and its argument, each with a terminating zero.
    lines: [[u8; LINE_BYTES_MAX + 2]; NESTED_MAX],
    /// Where in each the argument begins, if there is one.
    arguments: [Option<usize>; NESTED_MAX],
    scripts: usize,
}

impl Executed {
    pub fn of(path: &CStr) -> Executed {
        let mut executed = Executed {
            lines: [[0; LINE_BYTES_MAX + 2]; NESTED_MAX],
            arguments: [None; NESTED_MAX],
            scripts: 0,
        };
        while executed.scripts < NESTED_MAX {
            let Ok(opened) = Opened::open(executed.program(path)) else {
                break;
            };
            let Some(line) = Line::read(opened.head()) else { break };
            let (name, argument) = (line.interpreter, line.argument.unwrap_or_default());
            let text = &mut executed.lines[executed.scripts];
            text[..name.len()].copy_from_slice(name);
            text[name.len() + 1..][..argument.len()].copy_from_slice(argument);
            executed.arguments[executed.scripts] = line.argument.map(|_| name.len() + 1);
            executed.scripts += 1;
        }
        executed
    }

    /// The program that the kernel loads, if `path` is executed.
    pub fn program<'a>(&'a self, path: &'a CStr) -> &'a CStr {
        match self.scripts {
            0 => path,
            scripts => self.text(scripts - 1, 0),
        }
    }

    /// Calls `push` for each argument that stands in the place of the script's name, in their order; not at all for a program.
    pub fn each_leading(&self, path: &CStr, mut push: impl FnMut(*const c_char)) {
        for script in (0..self.scripts).rev() {
            push(self.text(script, 0).as_ptr());
            if let Some(start) = self.arguments[script] {
                push(self.text(script, start).as_ptr());
            }
            if script == 0 {
                push(path.as_ptr());
            }
        }
    }

    fn text(&self, script: usize, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.lines[script][start..]).unwrap_or_default()
    }
}

/// Is this a program that has to have a host? One that gets rights by being executed goes without us.
pub fn needs_host(path: &CStr) -> bool {
    let Ok(opened) = Opened::open(path) else { return false };
    let Ok(image) = Image::read(opened.head()) else {
        return false;
    };
    let mut name = [0; INTERPRETER_BYTES_MAX + 1];
    let interpreter = opened.interpreter(&image, &mut name);
    Loader::of(interpreter.map(CStr::to_bytes)) != Loader::Other && mode_of(opened.file) & GIVES_RIGHTS == 0
}

fn mode_of(file: i32) -> u32 {
    // SAFETY: a stat of zeros is valid, and the kernel fills it.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        sys::syscall(libc::SYS_fstat, [file as usize, &raw mut stat as usize, 0, 0, 0, 0]);
        stat.st_mode
    }
}
