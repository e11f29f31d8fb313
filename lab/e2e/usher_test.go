package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"usher.sh/usher/lab/testlab"
)

// patience ends only what hangs. Longer than two minutes, which is how long the disruption controller may count a pod as
// being evicted that came back under its name.
const patience = 5 * time.Minute

var built struct {
	sync.Once
	path string
	err  error
}

// usherBinary builds usher on first use, into the state folder of the shared lab, which goes with the lab.
func usherBinary(t *testing.T) string {
	t.Helper()
	l := testlab.Get(t)
	built.Do(func() {
		built.path = filepath.Join(l.Cluster().Dir, "usher")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", built.path, "./cmd/usher")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = errors.New(err.Error() + ": " + string(out))
			return
		}
		built.err = os.Symlink("usher", filepath.Join(l.Cluster().Dir, "kubectl-usher"))
	})
	if built.err != nil {
		t.Fatalf("building usher: %v", built.err)
	}
	return built.path
}

// result is a command that has ended, as the program that started it sees it.
type result struct {
	Code     int
	Out, Err string
}

// wantCode fails the test with all that was printed if the command ended otherwise.
func (r result) wantCode(t *testing.T, code int) result {
	t.Helper()
	if r.Code != code {
		t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.Code, code, r.Out, r.Err)
	}
	return r
}

// says fails the test unless each part is in stdout or stderr.
func (r result) says(t *testing.T, parts ...string) result {
	t.Helper()
	contains(t, r.Out+r.Err, parts...)
	return r
}

func (r result) doesNotSay(t *testing.T, parts ...string) result {
	t.Helper()
	for _, part := range parts {
		if bytes.Contains([]byte(r.Out+r.Err), []byte(part)) {
			t.Errorf("%q was printed:\n%s%s", part, r.Out, r.Err)
		}
	}
	return r
}

// usher runs usher with the administrator's access to the shared lab, to its end.
func usher(t *testing.T, args ...string) result {
	t.Helper()
	return usherIn(t, testlab.Get(t).Kubeconfig(), args...)
}

// usherIn runs usher with this kubeconfig; "" gives none.
func usherIn(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return toEnd(t, usherBinary(t), kubeconfig, args)
}

// kubectl runs the lab's kubectl, to its end.
func kubectl(t *testing.T, args ...string) result {
	t.Helper()
	l := testlab.Get(t)
	return toEnd(t, l.Binary(t, "kubectl"), l.Kubeconfig(), args)
}

func toEnd(t *testing.T, path, kubeconfig string, args []string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment(kubeconfig)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	r := result{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: errOut.String()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("running %s %v: %v\nstdout:\n%s\nstderr:\n%s", filepath.Base(path), args, err, r.Out, r.Err)
	}
	return r
}

// environment leaves nothing of the machine's own configuration in.
func environment(kubeconfig string) []string {
	return []string{"KUBECONFIG=" + kubeconfig, "HOME=" + filepath.Dir(kubeconfig), "PATH=" + os.Getenv("PATH"), "USER=tester"}
}

// tool is a program that drains nodes.
type tool struct {
	name string
	run  func(t *testing.T, args ...string) result
}

// both are the programs that are compared where they do the same thing.
func both() []tool { return []tool{{"kubectl", kubectl}, {"usher", usher}} }
