package cgroup2

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/kernel"
)

// workArgument makes the test binary a container's process, which does the tasks on its standard input.
const workArgument = "usher-cgroup2-work"

// done is what a worker answers.
const done = "done"

// work does one task per line, and keeps what it has taken until it ends.
func work() error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		verb, object, _ := strings.Cut(lines.Text(), " ")
		task, known := tasks[verb]
		if !known {
			return fmt.Errorf("no task %q", verb)
		}
		if err := task(object); err != nil {
			return fmt.Errorf("%s %s: %w", verb, object, err)
		}
		fmt.Println(done)
	}
	return nil
}

var tasks = map[string]func(object string) error{
	"enter": func(folder string) error {
		return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
	},
	// memory of its own, in MiB
	"take": func(size string) error {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		_, err = unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
		return err
	},
	// a file of memory, as in an emptyDir of medium Memory, in MiB
	"keep": func(size string) error {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return err
		}
		fd, err := unix.MemfdCreate("kept", 0)
		if err != nil {
			return err
		}
		return unix.Fallocate(fd, 0, 0, n*mib)
	},
	// what the kernel keeps for it, in MiB
	"pipe": func(size string) error {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		full := make([]byte, 64<<10) // what a pipe takes
		for range n * mib / len(full) {
			out, in, err := os.Pipe()
			if err != nil {
				return err
			}
			opened = append(opened, out, in)
			if _, err := in.Write(full); err != nil {
				return err
			}
		}
		return nil
	},
	// a file of the disk, by reading it; it stays open, as nothing of closed ones is kept in the cache here
	"read": func(name string) error {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		opened = append(opened, file)
		_, err = io.Copy(io.Discard, file)
		return err
	},
	// a file of the disk, by mapping it
	"map": func(name string) error {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		_, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
		return err
	},
	"threads": func(number string) error {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		started := make(chan struct{})
		for range n {
			go func() {
				runtime.LockOSThread()
				started <- struct{}{}
				select {}
			}()
			<-started
		}
		return nil
	},
}

var opened []*os.File

// worker is the process of a container.
type worker struct {
	*exec.Cmd

	in  io.Writer
	out *bufio.Scanner
}

// startWorker starts a process in a container's cgroup, in which it takes next to nothing yet.
func startWorker(t *testing.T, container string) *worker {
	t.Helper()
	w := &worker{Cmd: exec.CommandContext(t.Context(), "/proc/self/exe", workArgument)}
	in, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewScanner(out)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill()
		_ = w.Wait()
	})
	w.do(t, "enter "+container)
	return w
}

// do has the worker do a task, and returns when it has.
func (w *worker) do(t *testing.T, task string) {
	t.Helper()
	if answer := w.try(t, task); answer != done {
		t.Fatalf("%s: %q", task, answer)
	}
}

// try is do for a task that may be the worker's end; then the answer is empty.
func (w *worker) try(t *testing.T, task string) string {
	t.Helper()
	if _, err := fmt.Fprintln(w.in, task); err != nil {
		t.Fatal(err)
	}
	w.out.Scan()
	return w.out.Text()
}

// onDisk makes a file that was not read yet, so that its pages are charged to the cgroup that reads them.
func onDisk(t *testing.T, name string, size int64) string {
	t.Helper()
	path := filepath.Join(kernel.Share, strings.ReplaceAll(t.Name(), "/", "-")+"-"+name)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return path
}
