//! Runs a Python program that nobody has read, with everything taken away that could do harm.
//!
//! A child process limits itself before it compiles the program: time, memory, open files; a new
//! session, so that it has no terminal; and a filter for system calls that lets it read files and
//! compute, and nothing else. It cannot write to a file, open a socket, start a process or a thread, or
//! signal anybody. What it was told on its way in, and whether it came to its end, is all that passes.
//! Whoever does not end in time is killed.

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use thiserror::Error;

/// How long a program may run.
const TIME: Duration = Duration::from_secs(10);

/// Seconds of computing, bytes of memory, and open files.
const LIMITS: [u64; 3] = [8, 1 << 30, 32];

/// What the program may say is not read beyond this.
const MOST_SAID: u64 = 4096;

/// How often it is looked after.
const PAUSE: Duration = Duration::from_millis(5);

/// The child's first words. They end before a word of the program is compiled.
const HARNESS: &str = include_str!("confine.py");

/// The exit code of a child that could not be confined.
const UNCONFINED: i32 = 97;

#[derive(Clone, Debug, Error)]
pub enum ConfineError {
    #[error("python3 cannot be started: {0}; answers that are programs are judged by running them")]
    NoPython(String),
    #[error(
        "programs cannot be confined here ({0}), and what a model wrote is not run otherwise: use \
         Linux with seccomp, on x86-64, aarch64 or riscv64"
    )]
    NotHere(String),
}

/// Whether programs can be confined here; found out once.
pub fn check() -> Result<(), ConfineError> {
    static FOUND: OnceLock<Result<(), ConfineError>> = OnceLock::new();
    FOUND.get_or_init(|| run("pass").map(drop)).clone()
}

/// Whether a program comes to its end without an error.
pub fn run(program: &str) -> Result<bool, ConfineError> {
    run_for(program, TIME)
}

fn run_for(program: &str, time: Duration) -> Result<bool, ConfineError> {
    let filter = filter().map_err(ConfineError::NotHere)?;
    let end = format!("{:016x}", decode::sampling::hash(std::process::id().into(), program.len()));
    let told = serde_json::json!({
        "filter": filter, "limits": LIMITS, "program": program, "end": end,
    });
    let mut child = Command::new("python3")
        // Nothing of the user's environment, and no byte code beside any file.
        .args(["-I", "-S", "-B", "-c", HARNESS])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| ConfineError::NoPython(error.to_string()))?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    // A child that dies early closes the pipe, which its exit code tells better.
    let told = told.to_string();
    let tell = thread::spawn(move || to.map(|mut to| to.write_all(told.as_bytes())));
    let hear = thread::spawn(move || {
        let mut said = vec![];
        let heard = from.map(|from| from.take(MOST_SAID).read_to_end(&mut said));
        heard.and_then(Result::ok).map(|_| said).unwrap_or_default()
    });
    let code = wait(&mut child, time);
    let (_, said) = (tell.join(), hear.join().unwrap_or_default());
    if code == Some(UNCONFINED) {
        let reason = String::from_utf8_lossy(&said).trim().to_owned();
        return Err(ConfineError::NotHere(reason));
    }
    // A program that ends the process by itself has not come to its end.
    Ok(code == Some(0) && said.ends_with(end.as_bytes()))
}

/// The child's exit code; `None` if it was killed, because it took too long or otherwise.
fn wait(child: &mut Child, time: Duration) -> Option<i32> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if started.elapsed() < time => thread::sleep(PAUSE),
            Ok(None) | Err(_) => {
                // It has no children of its own, so this is the end of it.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// The system calls that reading and computing take, as instructions for the kernel. All others fail.
#[cfg(target_os = "linux")]
fn filter() -> Result<Vec<(u16, u8, u8, u32)>, String> {
    use std::collections::BTreeMap;

    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };

    let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;
    let no_bits = |argument: u8, bits: u64| {
        let none = SeccompCmpOp::MaskedEq(bits);
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, none, 0);
        condition.and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let failed = |error: seccompiler::BackendError| error.to_string();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        allowed().into_iter().map(|call| (call, vec![])).collect();
    let read_only = no_bits(2, u64::from(writes.unsigned_abs())).map_err(failed)?;
    rules.insert(libc::SYS_openat, vec![read_only]);
    #[cfg(target_arch = "x86_64")]
    {
        let read_only = no_bits(1, u64::from(writes.unsigned_abs())).map_err(failed)?;
        rules.insert(libc::SYS_open, vec![read_only]);
    }
    // What a limit is may be asked, and not changed.
    let half = |argument: u8, length| SeccompCondition::new(argument, length, SeccompCmpOp::Eq, 0);
    let unchanged = half(2, SeccompCmpArgLen::Qword)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(failed)?;
    rules.insert(libc::SYS_prlimit64, vec![unchanged]);
    let arch = std::env::consts::ARCH.try_into().map_err(failed)?;
    // As if the kernel did not have them, so that libraries take another way.
    let refuse = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    Ok(program.iter().map(|line| (line.code, line.jt, line.jf, line.k)).collect())
}

#[cfg(not(target_os = "linux"))]
fn filter() -> Result<Vec<(u16, u8, u8, u32)>, String> {
    Err(format!("this is {}", std::env::consts::OS))
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<i64> {
    #[rustfmt::skip]
    let calls = vec![
        // Files that are there, and what was opened.
        libc::SYS_read, libc::SYS_readv, libc::SYS_pread64, libc::SYS_write, libc::SYS_writev,
        libc::SYS_close, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_lseek,
        libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_readlinkat, libc::SYS_faccessat,
        libc::SYS_dup, libc::SYS_fcntl,
        // Memory.
        libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap,
        libc::SYS_madvise,
        // The process itself.
        libc::SYS_exit, libc::SYS_exit_group, libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getppid,
        libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid,
        libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack, libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq,
        libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_getrusage, libc::SYS_times,
        libc::SYS_restart_syscall,
        // Time, chance, and what machine this is.
        libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_getrandom, libc::SYS_uname,
        libc::SYS_sysinfo,
    ];
    #[cfg(target_arch = "x86_64")]
    #[rustfmt::skip]
    let calls = [calls, vec![
        libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_time,
        libc::SYS_arch_prctl,
    ]].concat();
    calls
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
