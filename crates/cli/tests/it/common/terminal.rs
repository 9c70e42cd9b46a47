//! A terminal with the program in it, as a person has one: keys are pressed, and what appears is read.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// How long something may take to appear: an answer of a small model, on a machine that has other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the line editor writes when it has taken the keyboard over. Keys that are pressed earlier belong
/// to the terminal itself, which makes a signal of Ctrl-C.
const EDITING: &str = "\x1b[?2004h";

pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
pub const UP: &str = "\x1b[A";

pub struct Terminal {
    child: Child,
    keyboard: File,
    appearing: Receiver<Vec<u8>>,
    /// Everything that has appeared so far, and how much of it was waited for.
    screen: Vec<u8>,
    seen: usize,
}

impl Terminal {
    /// Starts a command with the terminal as its own, so that Ctrl-C reaches it as a signal.
    pub fn start(command: &Command) -> Self {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outer).unwrap();
        unlockpt(&outer).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let inner: OwnedFd = ioctl_tiocgptpeer(&outer, flags).unwrap();
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        session.env("TERM", "xterm").env_remove("NO_COLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let child = session
            .stdin(Stdio::from(inner.try_clone().unwrap()))
            .stdout(Stdio::from(inner.try_clone().unwrap()))
            .stderr(Stdio::from(inner))
            .spawn()
            .unwrap();
        // The command holds the inner end alone: when it ends, so does what can be read.
        drop(session);
        let mut output = File::from(outer.try_clone().unwrap());
        let (sender, appearing) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once nobody has the terminal open.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keyboard: File::from(outer), appearing, screen: vec![], seen: 0 }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and sends it.
    pub fn line(&mut self, text: &str) {
        self.press(text);
        self.press("\r");
    }

    /// Waits until the program reads a line behind this mark.
    pub fn prompt(&mut self, mark: &str) -> String {
        let before = self.wait_for(EDITING);
        before + &self.wait_for(mark)
    }

    /// What appeared up to a text and with it, since the last one that was waited for.
    pub fn wait_for(&mut self, text: &str) -> String {
        let at = |new: &[u8]| new.windows(text.len()).position(|part| part == text.as_bytes());
        self.wait(text, |new| at(new).map(|at| at + text.len()))
    }

    /// Waits until so many more bytes have appeared.
    pub fn wait_for_more(&mut self, bytes: usize) -> String {
        self.wait("more", |new| (new.len() >= bytes).then_some(bytes))
    }

    fn wait(&mut self, what: &str, found: impl Fn(&[u8]) -> Option<usize>) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let new = &self.screen[self.seen..];
            if let Some(end) = found(new) {
                let text = String::from_utf8_lossy(&new[..end]).into_owned();
                self.seen += end;
                return text;
            }
            match self.appearing.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(more) => self.screen.extend(more),
                Err(reason) => {
                    let why = match reason {
                        RecvTimeoutError::Timeout => "did not appear in time",
                        RecvTimeoutError::Disconnected => "did not appear before the program ended",
                    };
                    panic!("{what:?} {why}: {:?}", String::from_utf8_lossy(&self.screen));
                }
            }
        }
    }

    /// Waits for the program's end: its exit code, and all that ever appeared.
    pub fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        while let Ok(more) =
            self.appearing.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.screen.extend(more);
        }
        assert!(
            Instant::now() < until,
            "it does not end: {:?}",
            String::from_utf8_lossy(&self.screen)
        );
        let code = self.child.wait().unwrap().code();
        (code, String::from_utf8_lossy(&self.screen).into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
