//! `Kubectl`: runs a stock `kubectl` with its own home folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Oldest supported minor version of kubectl.
const OLDEST_MINOR: u32 = 31;

/// `kubectl` for one cluster, with its own discovery cache.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// Output of a command.
#[derive(Clone, Debug)]
pub struct Printed {
    pub command: String,
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    /// Finds `$KUBECTL`, or else the one in PATH. Panics if there is none, or if it is too old.
    pub fn new(kubeconfig: &Path, home: &Path) -> Self {
        let program = PathBuf::from(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        let version = Command::new(&program).args(["version", "--client", "-o", "json"]).output();
        let version = version.unwrap_or_else(|error| {
            panic!("this test drives a stock kubectl, 1.{OLDEST_MINOR} or newer: {}: {error}", program.display())
        });
        let version: serde_json::Value = serde_json::from_slice(&version.stdout).unwrap_or_default();
        let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
        let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
        assert!(
            digits.parse::<u32>().is_ok_and(|minor| minor >= OLDEST_MINOR),
            "this test drives a stock kubectl, 1.{OLDEST_MINOR} or newer; {} is 1.{minor}",
            program.display()
        );
        Self { program, kubeconfig: kubeconfig.to_owned(), home: home.to_owned() }
    }

    /// Returns a command to spawn.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .stdin(Stdio::null());
        command
    }

    /// Runs a shell script in a directory, with this `kubectl` in PATH and both outputs joined.
    pub fn shell(&self, directory: &Path, script: &str) -> Output {
        let script = format!("kubectl() {{ command \"$KUBECTL\" \"$@\"; }}\nexec 2>&1\n{script}");
        Command::new("sh")
            .args(["-c", &script])
            .current_dir(directory)
            .env("KUBECTL", &self.program)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .stdin(Stdio::null())
            .output()
            .expect("a shell starts")
    }

    /// Runs one command line, split at white space.
    pub fn run(&self, line: &str) -> Printed {
        self.run_args(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub fn run_args(&self, arguments: &[&str]) -> Printed {
        let output = self.command(arguments).output().expect("kubectl starts");
        Printed::of(arguments, &output)
    }

    /// Runs a command line that must succeed; returns its output.
    pub fn ok(&self, line: &str) -> String {
        self.run(line).succeeded()
    }

    pub fn ok_args(&self, arguments: &[&str]) -> String {
        self.run_args(arguments).succeeded()
    }

    /// Runs a command line that must fail; returns its standard error.
    pub fn fails(&self, line: &str) -> String {
        let printed = self.run(line);
        assert!(!printed.success, "kubectl {line} should fail but printed:\n{}", printed.stdout);
        printed.stderr
    }

    /// Runs a command with `input` on its standard input.
    pub fn with_input(&self, line: &str, input: &str) -> Printed {
        use std::io::Write;
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.command(&arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        stdin.write_all(input.as_bytes()).expect("kubectl reads its input");
        drop(stdin);
        Printed::of(&arguments, &child.wait_with_output().expect("kubectl ends"))
    }
}

impl Printed {
    fn of(arguments: &[&str], output: &Output) -> Self {
        Self {
            command: format!("kubectl {}", arguments.join(" ")),
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Panics with the output unless the command succeeded.
    pub fn succeeded(self) -> String {
        assert!(self.success, "{}\nstdout:\n{}\nstderr:\n{}", self.command, self.stdout, self.stderr);
        self.stdout
    }
}
