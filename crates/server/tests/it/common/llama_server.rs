//! The real llama-server, started on loopback.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use models::{Environment, Home};

/// Killed when dropped.
pub struct LlamaServer {
    child: Child,
    pub port: u16,
}

impl LlamaServer {
    pub fn is_installed() -> bool {
        Self::python().exists()
    }

    fn python() -> PathBuf {
        Home::find(Environment::read()).unwrap().file("engines/llama-server/bin/python")
    }

    pub fn start(model: &Path) -> Self {
        Self::start_at(model, Self::free_port())
    }

    pub fn start_at(model: &Path, port: u16) -> Self {
        Self::serve(model, port, (1, 1024))
    }

    /// With so many slots, each for so many tokens.
    pub fn start_with(model: &Path, slots: usize, context: usize) -> Self {
        Self::serve(model, Self::free_port(), (slots, context))
    }

    /// Free now, and most likely still so when the server takes it.
    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn serve(model: &Path, port: u16, (slots, context): (usize, usize)) -> Self {
        let python = Self::python();
        assert!(python.exists(), "llama-server is not installed: run `make test`");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/engines/llama_server.py");
        let mut child = Command::new(python)
            .args([script, "--key", "sesame", "--threads", "2"])
            .args(["--slots", &slots.to_string(), "--context", &context.to_string()])
            .args(["--port", &port.to_string(), "--model", model.to_str().unwrap()])
            // It ends when this pipe does, so it cannot outlive us.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ready = BufReader::new(child.stdout.take().unwrap()).lines().next();
        assert_eq!(ready.unwrap().unwrap(), "ready");
        Self { child, port }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
