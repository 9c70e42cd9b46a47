//! What a hostile program cannot do. Each is run for real.

use std::{fs, net::TcpListener};

use super::*;

fn ends(program: &str) -> bool {
    run_for(program, Duration::from_secs(20)).unwrap()
}

#[test]
fn what_computes_comes_to_its_end() {
    check().unwrap();
    assert!(ends("import math, typing, collections, re, itertools\nassert math.gcd(12, 18) == 6"));
    assert!(ends("print('much' * 100000)\nimport sys\nsys.stderr.write('x')"));
    assert!(!ends("assert 1 == 2"));
    assert!(!ends("def f(:"));
}

#[test]
fn who_leaves_early_has_not_come_to_the_end() {
    for program in ["import sys\nsys.exit(0)", "import os\nos._exit(0)", "raise SystemExit(0)"] {
        assert!(!ends(program), "{program}");
    }
}

#[test]
fn nothing_is_written_and_nothing_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "kept").unwrap();
    let path = file.display();
    for program in [
        format!("open({:?}, 'w')", format!("{path}")),
        format!("open({:?}, 'a').write('x')", format!("{path}")),
        format!("open({:?}, 'r+')", format!("{path}")),
        format!("open({:?}, 'x')", format!("{path}.new")),
        format!("import os\nos.remove({:?})", format!("{path}")),
        format!("import os\nos.rename({:?}, {:?})", format!("{path}"), format!("{path}.new")),
        format!("import os\nos.mkdir({:?})", format!("{path}.new")),
        format!("import os\nos.truncate({:?}, 0)", format!("{path}")),
        format!("import os\nos.chmod({:?}, 0)", format!("{path}")),
        format!("import os\nos.symlink('/etc/passwd', {:?})", format!("{path}.new")),
    ] {
        assert!(!ends(&program), "{program}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn nothing_is_sent_and_nobody_is_started_or_signalled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = std::process::id();
    for program in [
        format!("import socket\nsocket.create_connection(('127.0.0.1', {port}))"),
        "import socket\nsocket.socket(socket.AF_UNIX)".to_owned(),
        "import os\nos.fork()".to_owned(),
        "import subprocess\nsubprocess.run(['true'])".to_owned(),
        "import os\nassert os.system('true') == 0".to_owned(),
        "import os\nos.execv('/bin/true', ['true'])".to_owned(),
        "import threading\nthreading.Thread(target=print).start()".to_owned(),
        format!("import os\nos.kill({own}, 9)"),
        "import os\nos.kill(os.getppid(), 9)".to_owned(),
    ] {
        assert!(!ends(&program), "{program}");
    }
}

#[test]
fn limits_cannot_be_raised() {
    for program in [
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "import ctypes\nassert ctypes.CDLL(None).setrlimit(9, b'\\xff' * 16) == 0",
        "import ctypes\nassert ctypes.CDLL(None).prctl(22, 0, 0, 0, 0) == 0",
    ] {
        assert!(!ends(program), "{program}");
    }
}

#[test]
fn what_does_not_end_or_eats_memory_is_ended() {
    let started = Instant::now();
    for program in [
        "while True: pass",
        "import time\ntime.sleep(1000)",
        "import signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass",
        "import os\nwhile True: os.write(1, b'x' * 4096)",
    ] {
        assert!(!run_for(program, Duration::from_millis(700)).unwrap(), "{program}");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(!ends("x = bytearray(3 << 30)"));
    assert!(!ends("x = []\nwhile True: x.append('x' * 1000000)"));
}
