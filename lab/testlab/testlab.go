// Package testlab answers: how does a test get a real control plane with simulated nodes? One lab is started per
// test binary, on first use, and ended with it; every test makes its own namespaces and nodes in it.
package testlab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/nodes"
)

// Lab is a running lab.
type Lab struct {
	cluster *cluster.Cluster
	config  *rest.Config
	client  kubernetes.Interface
	nodes   *nodes.Simulator
}

// Option changes what lab is started.
type Option func(*options)

type options struct {
	evictionRequestAPI bool
	still              bool
	nodeGrace          time.Duration
	profile            nodes.Profile
	seed               uint64
	parallel           int
}

// WithoutEvictionRequestAPI turns the gate of lifecycle.k8s.io/v1alpha1 off.
func WithoutEvictionRequestAPI() Option {
	return func(o *options) { o.evictionRequestAPI = false }
}

// Still leaves controllers, scheduler and the simulation of nodes out: objects stay as they are written, owners that do not
// exist and pods that no kubelet ends included. Namespaces and nodes are the test's to make.
func Still() Option {
	return func(o *options) { o.still = true }
}

// WithNodeGrace sets how long a node may be silent until Kubernetes calls it unreachable.
func WithNodeGrace(d time.Duration) Option { return func(o *options) { o.nodeGrace = d } }

// WithProfile sets how long pods take to start and stop; nodes.Fast if not given.
func WithProfile(p nodes.Profile) Option { return func(o *options) { o.profile = p } }

// WithSeed sets the seed of those times; 1 if not given.
func WithSeed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Parallel lets n tests run at once where the command line does not say how many, instead of one for each CPU: they wait for the lab, not
// for the CPU. It is an option of Main.
func Parallel(n int) Option { return func(o *options) { o.parallel = n } }

var shared struct {
	sync.Mutex
	ready bool // Main was called
	start func() (*Lab, error)
	stop  func()
}

// Main runs the tests of a package and ends the shared lab after them. To be called from TestMain; it exits.
func Main(m *testing.M, opts ...Option) {
	if err := widen(opts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var lab *Lab
	shared.Lock()
	shared.ready = true
	shared.start = sync.OnceValues(func() (*Lab, error) {
		var err error
		lab, err = start(context.Background(), opts)
		return lab, err
	})
	shared.stop = sync.OnceFunc(func() {
		if lab != nil {
			lab.end()
		}
		removeUsher()
	})
	shared.Unlock()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		shared.stop()
		os.Exit(130)
	}()
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

func widen(opts []Option) error {
	var o options
	for _, set := range opts {
		set(&o)
	}
	flag.Parse()
	given := o.parallel == 0
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(o.parallel))
}

// Get returns the lab shared by the tests of this binary, started by the first call.
func Get(tb testing.TB) *Lab {
	tb.Helper()
	shared.Lock()
	begin := shared.start
	shared.Unlock()
	if begin == nil {
		tb.Fatal("no lab: call testlab.Main from this package's TestMain")
	}
	lab, err := begin()
	if err != nil {
		tb.Fatal(err)
	}
	return lab
}

// Start starts a lab for this test alone.
func Start(tb testing.TB, opts ...Option) *Lab {
	tb.Helper()
	lab, err := start(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(lab.end)
	return lab
}

// startTimeout ends only what hangs, as waitTimeout does.
const startTimeout = 10 * time.Minute

func start(ctx context.Context, opts []Option) (*Lab, error) {
	o := options{evictionRequestAPI: binaries.Chosen().EvictionRequestAPI, profile: nodes.Fast, seed: 1}
	for _, set := range opts {
		set(&o)
	}
	cache, err := binaries.DefaultCache()
	if err != nil {
		return nil, err
	}
	sweep()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("starting lab: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		Name: "test", Dir: dir, Cache: cache, EvictionRequestAPI: o.evictionRequestAPI, Still: o.still, NodeGrace: o.nodeGrace, EndWithParent: true,
	})
	if err != nil {
		return nil, err
	}
	lab, err := attach(c, o)
	if err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return lab, nil
}

func attach(c *cluster.Cluster, o options) (*Lab, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if o.still {
		return &Lab{cluster: c, config: config, client: client}, nil
	}
	simulator, err := nodes.Start(c, o.profile, o.seed)
	if err != nil {
		return nil, err
	}
	return &Lab{cluster: c, config: config, client: client, nodes: simulator}, nil
}

func (l *Lab) end() {
	if err := l.cluster.Kill(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

const prefix = "usher-testlab-"

// sweep removes the state folders of test binaries that were killed. Their processes are gone: the kernel ends
// those with the test binary.
func sweep() {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range old {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), prefix+"%d-", &pid); err != nil {
			continue
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = cluster.Down(dir, 0)
		}
	}
}

// RESTConfig returns the administrator's access, without a client-side rate limit.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (l *Lab) Kubeconfig() string { return l.cluster.Kubeconfig() }

// Client returns the administrator's client.
func (l *Lab) Client() kubernetes.Interface { return l.client }

// Cluster returns the control plane.
func (l *Lab) Cluster() *cluster.Cluster { return l.cluster }

// Binary returns the path of one of the lab's programs, such as kubectl.
func (l *Lab) Binary(tb testing.TB, name string) string {
	tb.Helper()
	path, err := l.cluster.Cache.Path(name)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
