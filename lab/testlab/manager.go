package testlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"usher.sh/usher/lab/door"
	"usher.sh/usher/lab/port"
	"usher.sh/usher/lab/process"
)

// systemNamespace is where usher install puts what it installs.
const systemNamespace = "usher-system"

// Managers are processes of `usher manager` beside the control plane, replicas behind one address.
type Managers struct {
	lab        *Lab
	door       *door.Door
	kubeconfig string
	flags      []string
	replicas   []*replica
}

type replica struct {
	name                     string
	webhook, health, metrics int // ports on 127.0.0.1
	process                  *process.Process
}

// built is the program under test, which takes longer to link than a lab to start: once for all labs of a test binary.
var built struct {
	sync.Mutex
	path string
}

// Usher builds usher on first use and returns its path.
func (l *Lab) Usher(tb testing.TB) string {
	tb.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		return built.path
	}
	root, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "usher.sh/usher").Output()
	check(tb, "finding usher's module", err)
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid())) //nolint:usetesting // it serves all tests
	check(tb, "building usher", err)
	path := filepath.Join(dir, "usher")
	build := exec.CommandContext(tb.Context(), "go", "build", "-ldflags", "-s -w", "-o", path, "./cmd/usher")
	build.Dir = strings.TrimSpace(string(root))
	out, err := build.CombinedOutput()
	check(tb, "building usher: "+string(out), err)
	built.path = path
	return path
}

// removeUsher removes what Usher built.
func removeUsher() {
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
}

// Managers installs usher into the lab and starts n replicas of its manager, each as the service account and with no
// rights but those that usher install gives it. Flags are further ones of `usher manager`. It returns when all answer. They
// end with the test.
//
// Webhooks are the cluster's: tests that share a lab share its managers too, or run one after the other.
func (l *Lab) Managers(tb testing.TB, n int, flags ...string) *Managers {
	tb.Helper()
	usher := l.Usher(tb)
	address, err := door.Open(tb.Context())
	check(tb, "opening an address", err)
	tb.Cleanup(address.Close)
	m := &Managers{lab: l, door: address, flags: flags}
	install := exec.CommandContext(tb.Context(), usher, "install", "--kubeconfig", l.Kubeconfig(), "--webhook-url", m.door.URL())
	out, err := install.CombinedOutput()
	check(tb, "installing usher: "+string(out), err)
	m.kubeconfig = l.account(tb, systemNamespace, "usher-manager")
	for i := range n {
		r := &replica{name: fmt.Sprintf("usher-manager-%s-%d", unique(), i)}
		for _, number := range []*int{&r.webhook, &r.health, &r.metrics} {
			*number = keepPort(tb)
		}
		m.replicas = append(m.replicas, r)
		m.Start(tb, i)
	}
	tb.Cleanup(func() {
		for i := range m.replicas {
			m.Kill(tb, i)
		}
	})
	for i := range n {
		m.WaitReady(tb, i)
	}
	return m
}

// URL is where the replicas' webhooks are reached, for usher install.
func (m *Managers) URL() string { return m.door.URL() }

// keepPort keeps a port until the test ends, so that no other program listens at the address of a replica that is down.
func keepPort(tb testing.TB) int {
	tb.Helper()
	p, err := port.Keep()
	check(tb, "finding a port", err)
	tb.Cleanup(func() { check(tb, "giving a port up", p.Release()) })
	return p.Number
}

// account writes a kubeconfig of a service account with a token as a pod would have it.
func (l *Lab) account(tb testing.TB, namespace, name string) string {
	tb.Helper()
	day := int64(24 * time.Hour / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	request, err := l.client.CoreV1().ServiceAccounts(namespace).CreateToken(tb.Context(), name, request, metav1.CreateOptions{})
	check(tb, "making a token", err)
	ca, err := os.ReadFile(l.cluster.ClientCA())
	check(tb, "reading the lab's authority", err)
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: l.cluster.URL(), CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: name}
	config.CurrentContext = "lab"
	path := filepath.Join(tb.TempDir(), name+".kubeconfig")
	check(tb, "writing a kubeconfig", clientcmd.WriteToFile(*config, path))
	return path
}

// Start starts replica i, if it does not run. It does not wait until it answers.
func (m *Managers) Start(tb testing.TB, i int) {
	tb.Helper()
	r := m.replicas[i]
	if m.Runs(i) {
		return
	}
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	var err error
	r.process, err = process.Start(process.Spec{
		Name: r.name, Path: m.lab.Usher(tb), Dir: m.lab.cluster.Processes(), EndWithParent: true,
		Args: append([]string{
			"manager", "--kubeconfig", m.kubeconfig, "--namespace", systemNamespace,
			"--webhook-address", local(r.webhook), "--health-address", local(r.health), "--metrics-address", local(r.metrics),
		}, m.flags...),
	})
	check(tb, "starting a manager", err)
	m.door.Add(local(r.webhook))
}

// Runs reports whether the process of replica i is there.
func (m *Managers) Runs(i int) bool {
	p := m.replicas[i].process
	if p == nil {
		return false
	}
	select {
	case <-p.Ended():
		return false
	default:
		return true
	}
}

// Kill ends replica i with SIGKILL, if it runs.
func (m *Managers) Kill(tb testing.TB, i int) {
	tb.Helper()
	m.end(tb, i, 0)
}

// Stop ends replica i with SIGTERM, as a kubelet would, and waits until it has ended.
func (m *Managers) Stop(tb testing.TB, i int) {
	tb.Helper()
	m.end(tb, i, waitTimeout)
}

func (m *Managers) end(tb testing.TB, i int, grace time.Duration) {
	tb.Helper()
	if !m.Runs(i) {
		return
	}
	p := m.replicas[i].process
	check(tb, "ending a manager", p.Stop(m.lab.cluster.Processes(), grace))
	<-p.Ended()
}

// PID is the process id of replica i, for signals of other kinds.
func (m *Managers) PID(i int) int { return m.replicas[i].process.PID }

// Signal sends replica i a signal.
func (m *Managers) Signal(tb testing.TB, i int, s syscall.Signal) {
	tb.Helper()
	check(tb, "signalling a manager", syscall.Kill(m.PID(i), s))
}

// Metrics returns the metrics of replica i as text.
func (m *Managers) Metrics(ctx context.Context, i int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", m.replicas[i].metrics), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	return string(text), errors.Join(err, response.Body.Close())
}

// HealthURL is where replica i serves /healthz and /readyz.
func (m *Managers) HealthURL(i int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", m.replicas[i].health)
}

// Log returns what replica i has logged.
func (m *Managers) Log(tb testing.TB, i int) string {
	tb.Helper()
	data, err := os.ReadFile(m.replicas[i].process.Log)
	check(tb, "reading a manager's log", err)
	return string(data)
}

// WaitReady waits until replica i says that it is ready. It has to be asked: nothing can be watched.
func (m *Managers) WaitReady(tb testing.TB, i int) {
	tb.Helper()
	ready := func(ctx context.Context) (bool, error) {
		if !m.Runs(i) {
			return false, m.replicas[i].process.Failure()
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.HealthURL(i)+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}
	err := wait.PollUntilContextTimeout(tb.Context(), 50*time.Millisecond, waitTimeout, true, ready)
	if err != nil {
		tb.Fatalf("waiting until a manager is ready: %v\n%s", err, lastLines(m.Log(tb, i)))
	}
}

func lastLines(log string) string {
	const most = 4 << 10
	return log[max(0, len(log)-most):]
}
