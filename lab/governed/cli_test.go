package governed

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/lab/testlab"
)

// usher starts the program as the administrator, in the namespace default.
func (h *house) usher(t *testing.T, args ...string) *command {
	t.Helper()
	c := &command{ended: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	c.cmd = exec.CommandContext(ctx, h.lab.Usher(t), args...)
	c.cmd.Env = []string{"KUBECONFIG=" + h.lab.Kubeconfig(), "HOME=" + filepath.Dir(h.lab.Kubeconfig()), "PATH=" + os.Getenv("PATH")}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	must(t, c.cmd.Start())
	go func() {
		defer cancel()
		c.ended <- c.cmd.Wait()
	}()
	return c
}

// ends waits until the program has ended with an exit code, and returns what it printed.
func (c *command) ends(t *testing.T, code int, texts ...string) string {
	t.Helper()
	if err := <-c.ended; err != nil {
		t.Logf("%s: %v", strings.Join(c.cmd.Args[1:], " "), err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s: exit code %d, want %d\n%s", strings.Join(c.cmd.Args[1:], " "), got, code, c.out.String())
	}
	for _, text := range texts {
		if !strings.Contains(c.out.String(), text) {
			t.Errorf("%s does not say %q:\n%s", strings.Join(c.cmd.Args[1:], " "), text, c.out.String())
		}
	}
	return c.out.String()
}

// database is the database of docs/policies.md: what it says is what a test wrote down.
type database struct{ inSync atomic.Pointer[string] }

func (d *database) write(members ...string) {
	text := fmt.Sprintf(`{"inSync": ["%s"]}`, strings.Join(members, `", "`))
	d.inSync.Store(&text)
}

func (d *database) ServeHTTP(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, *d.inSync.Load()) }

// firstPolicy applies the manifests of docs/policies.md, with the database at its own address.
func (h *house) firstPolicy(t *testing.T) *database {
	t.Helper()
	d := &database{}
	d.write("db-0", "db-1", "db-2")
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "policies.md"))
	must(t, err)
	for i, name := range []string{"db.yaml", "policy.yaml"} {
		blocks := strings.Split(string(text), "```yaml\n")
		manifest, _, _ := strings.Cut(blocks[i+1], "```")
		manifest = strings.ReplaceAll(manifest, "http://127.0.0.1:8000", server.URL)
		manifest = strings.Replace(manifest, "  system:\n    http:", "  evidence: {maxAge: 1s}\n  system:\n    http:", 1)
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(manifest), 0o600))
		h.kubectl(t, "apply", "-f", path).succeed(t)
	}
	h.lab.WaitReady(t, metav1.NamespaceDefault, testlab.Labels("db"), 3)
	h.waitGoverned(t, metav1.NamespaceDefault, "db", 3)
	return d
}

func (h *house) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	found, err := h.lab.Client().CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return found
}

// waitAnswer waits until the responder says a text of the present pod of a name: the Eviction of one before it may still be there.
func (h *house) waitAnswer(t *testing.T, name, text string) {
	t.Helper()
	uid := h.pod(t, name).UID
	h.waitEviction(t, metav1.NamespaceDefault, "the responder to say why", func(e *lifecycle.Eviction) bool {
		return e.Spec.Target.Pod != nil && e.Spec.Target.Pod.UID == uid && says(e, text)
	})
}

func (h *house) nodeOf(t *testing.T, pod string) string {
	t.Helper()
	return h.pod(t, pod).Spec.NodeName
}

// whyUntil asks again until the answer has the exit code: what the system said last may be as old as its policy allows.
func (h *house) whyUntil(t *testing.T, code int, args ...string) string {
	t.Helper()
	for {
		c := h.usher(t, append([]string{"why"}, args...)...)
		if err := <-c.ended; err != nil {
			t.Logf("%s: %v", strings.Join(c.cmd.Args[1:], " "), err)
		}
		if got := c.cmd.ProcessState.ExitCode(); got == code {
			return c.out.String()
		}
		if t.Context().Err() != nil {
			t.Fatalf("usher why %s never ended with %d:\n%s", strings.Join(args, " "), code, c.out.String())
		}
	}
}

func wantSaid(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("usher why does not say %q:\n%s", text, said)
		}
	}
}

// The way to the first policy, as the docs describe it, and what people type on it, where requests are Usher's own custom
// resources: Kubernetes' API is off by default.
func TestFirstPolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1, testlab.WithoutEvictionRequestAPI())
	h.lab.Nodes(t, 4)
	db := h.firstPolicy(t)

	wantSaid(t, h.whyUntil(t, 0, "db-0"), "may be evicted now", "governed by policy db as replica db-0")
	wantSaid(t, h.whyUntil(t, 0, "db-0", "--replace"), "may be replaced, by the rules of its role")
	h.usher(t, "evictions").ends(t, 0, "no eviction is requested")
	h.usher(t, "why", "db-0", "--replace", "-f", "x.yaml").ends(t, 1, "use one of them")

	db.write("db-0", "db-1")
	wantSaid(t, h.whyUntil(t, 2, "db-0"), "OthersBehind: without db-0 these are in sync: db-1; two are needed")

	t.Run("drain asks and waits", func(t *testing.T) { h.drainAsks(t, db) })
	t.Run("two drain one node", func(t *testing.T) { h.twoDrain(t, db) })
	t.Run("a killed drain leaves nothing", func(t *testing.T) { h.killedDrain(t, db) })
	t.Run("a request stands until it is withdrawn", func(t *testing.T) { h.requestStands(t, db) })
	t.Run("no replica answers", func(t *testing.T) {
		h.managers.Kill(t, 0)
		h.usher(t, "why", "db-0").ends(t, 2, "EvidenceUnavailable", "kubectl get pods -A -l app.kubernetes.io/name=usher")
	})
}

// A drain asks for the eviction instead of evicting, says what it waits for, and leaves nothing when it is over.
func (h *house) drainAsks(t *testing.T, db *database) {
	t.Helper()
	node := h.nodeOf(t, "db-0")
	drain := h.usher(t, "drain", node, "--timeout", "4m")
	h.waitAnswer(t, "db-0", "two are needed")
	h.usher(t, "evictions", "-A").ends(t, 0, "default/db-0", "requested by drain.usher.sh/", "two are needed")
	db.write("db-0", "db-1", "db-2")
	drain.ends(t, 0, "SystemDecides", "two are needed", "drained after")
	h.usher(t, "evictions", "-A").ends(t, 0, "no eviction is requested")
	h.usher(t, "uncordon", node).ends(t, 0)
	h.lab.WaitReady(t, metav1.NamespaceDefault, testlab.Labels("db"), 3)
}

// Usher's drain is faster than kubectl's, which retries by name. That must not move the pod that has the name by then.
func (h *house) twoDrain(t *testing.T, db *database) {
	t.Helper()
	db.write("db-0", "db-1")
	h.whyUntil(t, 2, "db-0")
	node, before := h.nodeOf(t, "db-0"), h.pod(t, "db-0").UID
	theirs := h.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=4m")
	testlab.WaitFor(t, h.lab.Lifecycle(t).Requests(metav1.NamespaceDefault), "kubectl to be refused", func(all []*lifecycle.EvictionRequest) bool {
		return slices.ContainsFunc(all, func(r *lifecycle.EvictionRequest) bool {
			return r.Spec.Intent == lifecycle.EvictionRequestIntentEviction && strings.HasPrefix(r.Spec.Requester, "requester.usher.sh/")
		})
	})
	ours := h.usher(t, "drain", node, "--timeout", "4m")
	h.waitAnswer(t, "db-0", "two are needed")
	db.write("db-0", "db-1", "db-2")
	var moved types.UID
	testlab.WaitFor(t, h.lab.Pods(metav1.NamespaceDefault), "db-0 to be moved", func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.Name == "db-0" && p.UID != before {
				moved = p.UID
			}
		}
		return moved != ""
	})
	ours.ends(t, 0, "drained after")
	theirs.ends(t, 0, "drained")
	if now := h.pod(t, "db-0").UID; now != moved {
		t.Errorf("db-0 was moved twice: %s, %s, %s", before, moved, now)
	}
	h.kubectl(t, "uncordon", node).succeed(t)
	h.lab.WaitReady(t, metav1.NamespaceDefault, testlab.Labels("db"), 3)
}

// What a killed drain has asked for is withdrawn by the next command that gives its node back, and the pod stays.
func (h *house) killedDrain(t *testing.T, db *database) {
	t.Helper()
	node, before := h.nodeOf(t, "db-0"), h.uid(t, metav1.NamespaceDefault, "db-0")
	db.write("db-0", "db-1")
	h.whyUntil(t, 2, "db-0")
	drain := h.usher(t, "drain", node)
	h.waitAnswer(t, "db-0", "two are needed")
	must(t, drain.cmd.Process.Kill())
	<-drain.ended //nolint:errcheck // it was killed
	h.usher(t, "evictions").ends(t, 0, "default/db-0", "requested by drain.usher.sh/")
	h.usher(t, "uncordon", node).ends(t, 0, "uncordoned")
	h.usher(t, "evictions").ends(t, 0, "no eviction is requested")
	db.write("db-0", "db-1", "db-2")
	h.whyUntil(t, 0, "db-0")
	if after := h.uid(t, metav1.NamespaceDefault, "db-0"); after != before {
		t.Errorf("db-0 was evicted for a drain that was killed")
	}
}

// A request outlives the command that made it; withdrawn, the pod stays.
func (h *house) requestStands(t *testing.T, db *database) {
	t.Helper()
	db.write("db-0")
	h.whyUntil(t, 2, "db-1")
	h.usher(t, "evict", "db-1", "--timeout", "2s").ends(t, 3, "the request stands")
	h.usher(t, "evictions").ends(t, 0, "default/db-1")
	h.usher(t, "evict", "db-1", "--withdraw").ends(t, 0, "was withdrawn")
	h.usher(t, "evict", "db-1", "--withdraw").ends(t, 1, "no request of")
	h.usher(t, "evictions").ends(t, 0, "no eviction is requested")
	h.usher(t, "evict", "missing").ends(t, 1, `has no pod "missing"`)
	db.write("db-0", "db-1", "db-2")
	h.whyUntil(t, 0, "db-1")
	h.usher(t, "evict", "db-1").ends(t, 0, "is gone")
	h.lab.WaitReady(t, metav1.NamespaceDefault, testlab.Labels("db"), 3)
}
