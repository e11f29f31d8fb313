package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/process"
)

// Status is what is seen of a lab from outside.
type Status struct {
	Name       string
	Kubeconfig string
	Running    int // processes that run
	Processes  int // processes that were started
	Since      time.Time
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// StateDir is the state folder of the lab of that name: usher-lab/<name> in $XDG_STATE_HOME, or ~/.local/state.
func StateDir(name string) (string, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("naming lab %q: want at most 40 lower case letters, digits and dashes, no dash at the ends", name)
	}
	root, err := stateRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, name), nil
}

func stateRoot() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "usher-lab"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the state folder (set XDG_STATE_HOME): %w", err)
	}
	return filepath.Join(home, ".local", "state", "usher-lab"), nil
}

// Labs lists the labs that have a state folder, by name.
func Labs() ([]Status, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "lab.json"))
	if err != nil {
		return nil, err
	}
	var labs []Status
	for _, file := range files {
		s, err := Inspect(filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		labs = append(labs, s)
	}
	return labs, nil
}

// Inspect looks at the lab whose state folder is dir; where there is none, its Status has no processes.
func Inspect(dir string) (Status, error) {
	s := Status{Name: filepath.Base(dir), Kubeconfig: filepath.Join(dir, "kubeconfig")}
	records, err := process.Records(filepath.Join(dir, "processes"))
	if err != nil {
		return s, fmt.Errorf("inspecting lab %s: %w", s.Name, err)
	}
	s.Processes = len(records)
	for i, r := range records {
		if i == 0 {
			s.Since = r.Started
		}
		if r.Alive() {
			s.Running++
		}
	}
	return s, nil
}

// Lock keeps other programs from starting or ending the lab of that state folder at the same time.
func Lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("locking lab: %w", err)
	}
	file, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking lab: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lab %s is being started or ended by another command; try again when that is done", filepath.Base(dir))
		}
		return nil, fmt.Errorf("locking lab: %w", err)
	}
	return func() { file.Close() }, nil
}
