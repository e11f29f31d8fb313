package openstack

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/process"
)

// supervisor is supervise.sh, which starts and ends everything, one command at a time. It outlives the test binary, if only until it has
// ended everything: so nothing stays, however that binary ends.
type supervisor struct {
	sync.Mutex
	script   *exec.Cmd
	commands *os.File
	answers  *os.File
	lines    *bufio.Reader // of answers
	log      string
	broken   error // commands and answers do not belong together any more
}

// supervise starts one in dir. It keeps the lock until it ends.
func supervise(dir string, lock *os.File, env []string) (*supervisor, error) {
	log := filepath.Join(dir, "supervise.log")
	if err := os.RemoveAll(log); err != nil {
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	in, commands, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	defer in.Close()
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a supervisor: %w", err), commands.Close())
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(dir, "supervise.sh")) //nolint:noctx // the end of its input ends it
	cmd.Stdin, cmd.Stdout, cmd.Env, cmd.ExtraFiles = in, out, env, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt is for the test binary
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a supervisor: %w", err), commands.Close(), answers.Close())
	}
	return &supervisor{script: cmd, commands: commands, answers: answers, lines: bufio.NewReader(answers), log: log}, nil
}

// longest bounds a command, which has bounds of its own, and may have packages to install, on a busy machine too: it ends only what hangs.
const longest = 40 * time.Minute

// run runs a command of words without blanks, after assignments to variables, if any, and waits until it has ended.
func (s *supervisor) run(words ...string) error {
	s.Lock()
	defer s.Unlock()
	if s.broken != nil {
		return s.broken
	}
	command := strings.Join(words, " ")
	code, err := s.ask(command)
	if err != nil {
		s.broken = fmt.Errorf("running %s: %w; see %s", command, err, s.log)
		return s.broken
	}
	if code != "0" {
		return fmt.Errorf("%s ended with %s; the end of %s:\n%s", command, code, s.log, process.Tail(s.log))
	}
	return nil
}

func (s *supervisor) ask(command string) (string, error) {
	if _, err := fmt.Fprintln(s.commands, command); err != nil {
		return "", err
	}
	if err := s.answers.SetReadDeadline(time.Now().Add(longest)); err != nil {
		return "", err
	}
	line, err := s.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// end has everything ended, and waits for it.
func (s *supervisor) end() error {
	s.Lock()
	defer s.Unlock()
	s.broken = errors.New("OpenStack has been ended")
	if err := errors.Join(s.commands.Close(), s.script.Wait(), s.answers.Close()); err != nil {
		return fmt.Errorf("ending OpenStack: %w; see %s", err, s.log)
	}
	return nil
}

// another bounds how long the tests of another package may have the machine's OpenStack.
const another = 30 * time.Minute

// lockFile opens a file that one open file at a time is given, in this process or another.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking OpenStack: %w", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(another); ; <-tick.C {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("locking OpenStack by %s, which another test may have: %w", path, err), file.Close())
		}
	}
}
