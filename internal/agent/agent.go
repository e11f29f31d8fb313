package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/agent/notices"
	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// Options are what an agent is started with.
type Options struct {
	// Node is the name of this node.
	Node string
	// Config is checked already.
	Config Config
	// CgroupRoot is the kubelet's cgroupRoot; "": found out.
	CgroupRoot string
	// StateDir is where records are kept; "": nowhere.
	StateDir string
	// MetricsAddress is where metrics are served; "0": nowhere.
	MetricsAddress string
	// Client reads; Cluster writes.
	Client  kubernetes.Interface
	Cluster Cluster
	// Notices are the sources that are asked whether this node goes; none: it is not looked for.
	Notices []notice.Source
	// Bus is the address of the host's D-Bus, for notices of logind.
	Bus string
	// NoticeReader and NoticeWriter store notices.
	NoticeReader NoticeReader
	NoticeWriter NoticeWriter
	// Now is the time as the cluster has it.
	Now func() time.Time
	// Self is the agent's own pod; "": found out from its cgroup.
	Self types.UID
	// Out gets what the agent sees at start, in sentences; Log what happens then.
	Out io.Writer
	Log *slog.Logger
}

// Run looks after the node until ctx ends. Then it takes its conditions and taints back.
func Run(ctx context.Context, o Options) error {
	m, err := machine.Open(machine.Options{CgroupRoot: o.CgroupRoot, HostRoot: o.Config.HostRoot, KubeletDir: o.Config.KubeletDirectory})
	if err != nil {
		return err
	}
	thresholds, err := o.Config.Thresholds()
	if err != nil {
		return fmt.Errorf("the agent's configuration: %w", err)
	}
	if o.Self == "" {
		o.Self = m.Own()
	}
	watcher, offers, err := wake.Open(wake.Options{Proc: m.ProcFolder(), Unified: m.CgroupVersion() == 2, Pods: m.PodsFolder()})
	if err != nil {
		return err
	}
	defer watcher.Close()
	g := startupReport{
		out: o.Out, node: o.Node, machine: m, config: o.Config, thresholds: thresholds, self: o.Self,
		offers: offers, protections: protect(),
	}
	if err := g.say(); err != nil {
		return err
	}
	a, err := newAgent(o, m, watcher, thresholds)
	if err != nil {
		return err
	}
	a.records, err = openRecords(o.StateDir)
	if err != nil {
		return err
	}
	a.kubelet = func(ctx context.Context) { g.compare(ctx, o.Client) }
	return a.run(ctx)
}

// agent is everything around the loop.
type agent struct {
	Options

	machine       *machine.Machine
	watcher       *wake.Watcher
	podCache      *podCache
	policies      *policies
	diskScanner   *diskScanner
	apiserver     *apiserverHealth
	executor      *executor
	statusWriter  *nodeStatusWriter
	records       *records
	metrics       *metrics
	noticeWatcher *notices.Watcher      // nil: notices are not looked for
	kubelet       func(context.Context) // compares thresholds with the kubelet's
	loop          *loop
	announced     bool // the node has a condition; the loop's alone

	begun sync.WaitGroup // actions and events on their way; only the loop begins any
}

func newAgent(o Options, m *machine.Machine, w *wake.Watcher, thresholds []nodepressure.Threshold) (*agent, error) {
	a := &agent{Options: o, machine: m, watcher: w, podCache: newResidents(), metrics: newMetrics()}
	a.policies = newPolicies(func(ctx context.Context, namespace string) ([]v1alpha1.EvictionPolicy, error) {
		return observe.ReadPolicies(ctx, o.Client, namespace)
	})
	a.diskScanner = newSurveyor(m, a.podCache)
	a.apiserver = &apiserverHealth{probe: a.probe, changed: a.reached}
	a.executor = &executor{
		cluster: o.Cluster, node: o.Node, machine: m, cgroup: a.podCache.cgroup, blank: a.podCache.blank,
		apiserver: a.apiserver, outcomes: make(chan outcome, 8),
	}
	a.statusWriter = newShower(o.Cluster, o.Log)
	if len(o.Notices) > 0 {
		w, err := notices.New(notices.Options{Node: o.Node, Sources: o.Notices, Now: o.Now, Bus: o.Bus, Log: o.Log})
		if err != nil {
			return nil, err
		}
		a.noticeWatcher = w
	}
	see, err := newEyes(o.Node, m)
	if err != nil {
		return nil, err
	}
	a.loop = &loop{
		agent: a, reader: see, thresholds: thresholds, ledger: newLedger(m),
		podUsage: &podUsage{machine: m, cache: a.podCache, policyOf: a.policies.of, stays: a.policies.stays, disk: a.diskScanner.of},
	}
	return a, nil
}

func (a *agent) probe(ctx context.Context) error {
	_, err := a.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Raw()
	return err
}

func (a *agent) reached(reachable bool) {
	a.metrics.reachable(reachable)
	if reachable {
		a.Log.Info("the apiserver answers again")
		return
	}
	a.Log.Warn("the apiserver does not answer: below a hard threshold, pods are killed on the node until it does")
}

// run starts everything, and ends it in order: first nothing new is decided, then the node's conditions become Unknown.
func (a *agent) run(ctx context.Context) error {
	within, stop := context.WithCancel(ctx)
	defer stop()
	serving, err := a.metrics.serve(within, a.MetricsAddress)
	if err != nil {
		return err
	}
	watch := func(ctx context.Context) { a.podCache.watch(ctx, a.Client, a.Node, a.apiserver.record) }
	beside := []func(context.Context){watch, a.diskScanner.run, a.apiserver.run, a.statusWriter.run, a.kubelet, lockAnew}
	if len(a.Notices) > 0 {
		beside = append(beside, a.noticeWatcher.Run, newNoticeKeeper(a.Notices, a.noticeWatcher.Board(), &a.Options).run)
	}
	err = a.decideBeside(within, beside...)
	stop()
	return errors.Join(err, <-serving)
}

// decideBeside runs the loop beside others until ctx ends. What is being carried out is given up then and waited for a
// little: an annotation that did not help is still taken back.
func (a *agent) decideBeside(ctx context.Context, others ...func(context.Context)) error {
	within, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	for _, other := range others {
		running.Go(func() { other(within) })
	}
	err := a.loop.run(within)
	stop()
	running.Wait()
	given := make(chan struct{})
	go func() {
		defer close(given)
		a.begun.Wait()
	}()
	a.clearNodeConditions(context.WithoutCancel(ctx))
	select {
	case <-given:
	case <-time.After(givenUpWithin):
	}
	return err
}

// carry begins actions on one pod. It is the loop that calls it, and that the outcomes come back to.
func (a *agent) carry(ctx context.Context, actions ...nodepressure.Action) {
	a.begun.Go(func() { a.executor.carry(ctx, actions...) })
}

// How long the apiserver may take to accept the agent's last conditions, and how much longer what is given up may take. The
// sum is less than the grace period of the agent's pods.
const (
	goodbyePatience = 5 * time.Second
	givenUpWithin   = 3 * time.Second
)

func (a *agent) clearNodeConditions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goodbyePatience)
	defer cancel()
	answer := a.Cluster.Show(ctx, act.NodeSays{At: time.Now(), Over: true})
	a.Log.Info("stopped", "condition", string(answer.Code))
}
