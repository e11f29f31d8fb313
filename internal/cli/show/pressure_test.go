package show

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/forecast"
	"usher.sh/usher/internal/nodepressure/record"
)

const mi = 1 << 20

func pressed(name string, qos corev1.PodQOSClass, request, usage int64, change func(*nodepressure.Pod)) nodepressure.Pod {
	p := nodepressure.Pod{
		Namespace: "shop", Name: name, UID: types.UID("u-" + name), QoS: qos, Grace: 30 * time.Second,
		Requests:   nodepressure.Requests{Memory: request * mi},
		Containers: []nodepressure.Container{{Name: "main", MemoryRequest: request * mi, OOMRequest: request * mi, Restart: corev1.RestartPolicyAlways, Usage: usage * mi}},
		Usage: &nodepressure.Usage{
			At: noon, Memory: usage * mi, PIDs: usage,
			Disk: map[nodepressure.FsPart]nodepressure.FsUse{nodepressure.WritableLayers: {Bytes: 2 * mi, Inodes: 40}},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// short is a record of a node with 4Gi of memory that is a little above its soft threshold, with pods of all kinds.
func short() record.Record {
	r := record.New(noon, nodepressure.Node{
		Name: "worker-1", Memory: 4096 * mi, Layout: nodepressure.Single,
		Readings: map[nodepressure.Signal]nodepressure.Reading{
			nodepressure.MemoryAvailable:  {Available: 600 * mi, Capacity: 4096 * mi, At: noon.Add(-7 * time.Second)},
			nodepressure.NodeFsAvailable:  {Available: 40 << 30, Capacity: 100 << 30, At: noon.Add(-9 * time.Second)},
			nodepressure.NodeFsInodesFree: {Available: 6_000_000, Capacity: 6_553_600, At: noon.Add(-9 * time.Second)},
			nodepressure.PIDAvailable:     {Available: 32000, Capacity: 32768, At: noon},
		},
	}, []nodepressure.Pod{
		pressed("db-0", corev1.PodQOSGuaranteed, 1024, 900, func(p *nodepressure.Pod) { p.Governed, p.Policy = true, "arangodb" }),
		pressed("shop-frontend-5d9c8f7b6d-x2x7l", corev1.PodQOSBurstable, 128, 512, nil),
		pressed("batch-1", corev1.PodQOSBestEffort, 0, 300, func(p *nodepressure.Pod) {
			p.Governed, p.Policy, p.Containers[0].Restart = true, "batch", corev1.RestartPolicyNever
		}),
		pressed("kube-proxy", corev1.PodQOSBestEffort, 0, 40, func(p *nodepressure.Pod) { p.Exempt, p.Priority = nodepressure.ExemptMirror, 2_000_001_000 }),
		pressed("new-0", corev1.PodQOSBurstable, 64, 0, func(p *nodepressure.Pod) { p.Usage = nil }),
	})
	r.ConfigFrom = record.FromKubelet
	r.Config = nodepressure.Config{
		EvictionHard:            map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"},
		EvictionSoft:            map[string]string{"memory.available": "500Mi"},
		EvictionSoftGracePeriod: map[string]string{"memory.available": "1m30s"},
	}
	r.Reported = []record.Condition{{Type: corev1.NodeDiskPressure, Since: noon.Add(-190 * time.Second)}}
	return r
}

// asked is the page of a record, with made up readings of memory if available is not negative.
func asked(t *testing.T, r record.Record, order nodepressure.Order, available int64) Pressure {
	t.Helper()
	p := Pressure{Record: r}
	in := forecast.Input{Now: r.At, Node: r.Node, Pods: r.Pods, Config: r.Config, Order: order}
	if available >= 0 {
		p.Supposed = []nodepressure.Signal{nodepressure.MemoryAvailable}
		in.About, in.Node.Readings = p.Supposed, map[nodepressure.Signal]nodepressure.Reading{
			nodepressure.MemoryAvailable: {Available: available * mi, Capacity: 4096 * mi, At: r.At},
		}
	}
	f, err := forecast.Of(in)
	if err != nil {
		t.Fatal(err)
	}
	p.Forecast = f
	return p
}

const page = `memory.available of node worker-1 is 600Mi, 100Mi above its soft threshold of
500Mi; if it stayed below for 1m30s, shop/new-0 would go first (order kubelet),
with 1s to shut down, because nothing is known of what it uses, unlike
shop/shop-frontend-5d9c8f7b6d-x2x7l.
These readings raise no condition. The node itself has reported DiskPressure for
3m10s.

Signals, measured at 11:59:53 UTC
  memory.available  █████████████████┊░│   600Mi of 4Gi      hard 100Mi
                                                             soft 500Mi 1m30s
  nodefs.available  ████████████░░░░░│░░    40Gi of 100Gi    hard 10%
  nodefs.inodesFree █░░░░░░░░░░░░░░░░░░░ 6000000 of 6553600  no threshold
  pid.available     ░░░░░░░░░░░░░░░░░░░░   32000 of 32768    no threshold

Order kubelet when memory.available runs short
 #   POD               QOS          PRIORITY REQUEST   USAGE    OVER RULE
 1   shop/new-0        Burstable           0    64Mi unknown unknown NoStats
 2   shop/sho…6d-x2x7l Burstable           0   128Mi   512Mi  +384Mi Overage
 3 * shop/batch-1      BestEffort          0       0   300Mi  +300Mi Priority
 4 - shop/kube-proxy   BestEffort 2000001000       0    40Mi   +40Mi mirror pod
 5 * shop/db-0         Guaranteed          0     1Gi   900Mi  -124Mi Last
  - It is passed over, for the reason that is given as its rule.
  * A policy governs it: usher agent asks it first, the kubelet does not.
  usher why shows its verdict.

When something else runs short
  nodefs.available: shop/new-0 would go first, because nothing is known of what
  it uses, unlike shop/batch-1

The kernel's OOM killer, if the whole node is out of memory
 # POD                            CONTAINER QOS        SCORE  ADJ USAGE RESTART
 1 shop/shop-fron…d9c8f7b6d-x2x7l main      Burstable   1093  969 512Mi Always
 2 shop/batch-1                   main      BestEffort  1072 1000 300Mi Never
 3 shop/kube-proxy                main      BestEffort  1009 1000  40Mi Always
 4 shop/new-0                     main      Burstable    984  985     0 Always
 5 shop/db-0                      main      Guaranteed  -776 -997 900Mi Always

To know
  of 1 pod nothing was measured yet: the kubelet evicts such pods first,
  whatever they use`

func TestPressurePage(t *testing.T) {
	got := strings.Join(asked(t, short(), nodepressure.OrderKubelet, -1).Lines(80, Paint{}), "\n")
	if diff := cmp.Diff(page, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, got)
	}
}

// TestPressureScoresOf311: Guaranteed containers had another score, and the page says whose scores it has.
func TestPressureScoresOf311(t *testing.T) {
	r := short()
	p := Pressure{Record: r}
	var err error
	p.Forecast, err = forecast.Of(forecast.Input{Now: r.At, Node: r.Node, Pods: r.Pods, Config: r.Config, Order: nodepressure.OrderKubelet, OOMTable: nodepressure.OOM311})
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(p.Lines(80, Paint{}), "\n")
	for _, want := range []string{"The kernel's OOM killer, if the whole node is out of memory, by the scores of OpenShift 3.11\n", "Guaranteed  -777 -998 900Mi Always"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	text, err := p.JSON()
	if err != nil || !strings.Contains(string(text), `"oomTable": "3.11"`) || !strings.Contains(string(text), `"restart": "Never"`) {
		t.Errorf("%v in\n%s", err, text)
	}
}

func TestPressureAnswers(t *testing.T) {
	none := func(r *record.Record) { r.Pods = nil }
	exempt := func(r *record.Record) { r.Pods = r.Pods[3:4] }
	tests := []struct {
		name      string
		order     nodepressure.Order
		available int64
		change    func(*record.Record)
		want      string
	}{
		{"below hard", nodepressure.OrderKubelet, 80, nil, "Supposed: memory.available of node worker-1 is 80Mi, 20Mi below its hard threshold of 100Mi: shop/new-0 goes now (order kubelet), with 1s to shut down, because nothing is known of what it uses, unlike shop/shop-frontend-5d9c8f7b6d-x2x7l."},
		{"below hard, order qos", nodepressure.OrderQoS, 80, nil, "Supposed: memory.available of node worker-1 is 80Mi, 20Mi below its hard threshold of 100Mi: shop/batch-1 goes now (order qos), with 1s to shut down, because it uses 300Mi of memory, shop/kube-proxy uses 40Mi; policy batch governs it and is asked first, so usher agent takes shop/shop-frontend-5d9c8f7b6d-x2x7l before it."},
		{"below soft", nodepressure.OrderQoS, 400, nil, "Supposed: memory.available of node worker-1 is 400Mi, 100Mi below its soft threshold of 500Mi: if it stays there for 1m30s, shop/batch-1 goes first (order qos), with 1s to shut down, because it uses 300Mi of memory, shop/kube-proxy uses 40Mi; policy batch governs it and is asked first."},
		{"at the threshold", nodepressure.OrderQoS, 500, nil, "Supposed: memory.available of node worker-1 is 500Mi, exactly at its soft threshold of 500Mi; if it stayed below for 1m30s, shop/batch-1 would go first (order qos), with 1s to shut down, because it uses 300Mi of memory, shop/kube-proxy uses 40Mi; policy batch governs it and is asked first."},
		{"no pods", nodepressure.OrderQoS, 400, none, "Supposed: memory.available of node worker-1 is 400Mi, 100Mi below its soft threshold of 500Mi. There is no pod on the node that could be evicted."},
		{"exempt pods", nodepressure.OrderQoS, 700, exempt, "Supposed: memory.available of node worker-1 is 700Mi, 200Mi above its soft threshold of 500Mi. No pod would go, because every pod is passed over (mirror pod)."},
		{"exempt pods, now", nodepressure.OrderQoS, 50, exempt, "Supposed: memory.available of node worker-1 is 50Mi, 50Mi below its hard threshold of 100Mi. No pod goes, because every pod is passed over (mirror pod)."},
		{"guaranteed, with others that usher agent would not take", nodepressure.OrderQoS, 50, func(r *record.Record) {
			unmeasured := pressed("new-0", corev1.PodQOSBurstable, 64, 0, func(p *nodepressure.Pod) { p.Usage = nil })
			r.Pods = []nodepressure.Pod{pressed("tiny", corev1.PodQOSBestEffort, 0, 3, nil), unmeasured, pressed("db-0", corev1.PodQOSGuaranteed, 1024, 900, nil)}
		}, "Supposed: memory.available of node worker-1 is 50Mi, 50Mi below its hard threshold of 100Mi. No pod goes, because every pod is passed over (it uses too little to help; nothing is known of what it uses; guaranteed, and others are left)."},
		{"no threshold", nodepressure.OrderKubelet, 50, func(r *record.Record) { r.Config = nodepressure.Config{EvictionHard: map[string]string{}} }, "Supposed: memory.available of node worker-1 is 50Mi of 4Gi, and no threshold is set for it: no pod is evicted on its account."},
		{"share", nodepressure.OrderKubelet, 50, func(r *record.Record) {
			r.Config = nodepressure.Config{EvictionHard: map[string]string{"memory.available": "5%"}}
		}, "Supposed: memory.available of node worker-1 is 50Mi, 154.8Mi below its hard threshold of 204.8Mi (5%): shop/new-0 goes now (order kubelet), with 1s to shut down, because nothing is known of what it uses, unlike shop/shop-frontend-5d9c8f7b6d-x2x7l."},
		{"nothing measured", nodepressure.OrderKubelet, -1, func(r *record.Record) { r.Node.Readings = nil }, "Nothing was measured on node worker-1 that it can run short of."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := short()
			if tt.change != nil {
				tt.change(&r)
			}
			if diff := cmp.Diff(tt.want, asked(t, r, tt.order, tt.available).Answer()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// pressedCrowd is a node with 250 pods.
func pressedCrowd() record.Record {
	r := short()
	for i := range 245 {
		r.Pods = append(r.Pods, pressed(fmt.Sprintf("web-%03d", i), corev1.PodQOSBurstable, 10, int64(i%20), nil))
	}
	return r
}

func TestPressurePageOfManyPods(t *testing.T) {
	p := asked(t, pressedCrowd(), nodepressure.OrderQoS, -1)
	narrow := strings.Join(p.Lines(80, Paint{}), "\n")
	for _, want := range []string{"… and 235 more; -o json has all, and so has a pipe", "… and 245 more"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q in\n%s", want, narrow)
		}
	}
	piped := strings.Join(p.Lines(0, Paint{}), "\n")
	for i := range 245 {
		if name := fmt.Sprintf("shop/web-%03d ", i); strings.Count(piped, name) < 2 {
			t.Errorf("a pipe has %s %d times, want it in both orders", name, strings.Count(piped, name))
		}
	}
}

func TestPressureFitsAnyTerminal(t *testing.T) {
	for _, r := range []record.Record{short(), pressedCrowd()} {
		p := asked(t, r, nodepressure.OrderQoS, 80)
		for _, width := range []int{10, 40, 80, 200} {
			for _, height := range []int{2, 12, 24, 400} {
				for _, banner := range []string{"", "12:00:00  the kubelet of node worker-1 does not answer; asking again"} {
					checkFits(t, p.Screenful(width, height, banner, Paint{On: true}), width, max(height, 6))
				}
			}
		}
		for _, line := range p.Lines(80, Paint{}) {
			if len([]rune(line)) > 80 {
				t.Errorf("wider than 80: %q", line)
			}
		}
	}
}

func TestSmallScreenKeepsAnswerAndFirstPods(t *testing.T) {
	lines := asked(t, pressedCrowd(), nodepressure.OrderKubelet, 80).Screenful(80, 24, "no answer", Paint{})
	text := strings.Join(lines, "\n")
	for _, want := range []string{"Supposed: memory.available", "memory.available ████", "\n 1 ", "\n 2 ", "no answer"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if lines[len(lines)-1] != "no answer" {
		t.Errorf("the banner is not last:\n%s", text)
	}
}

func TestGauge(t *testing.T) {
	level := func(limit, headroom int64, grace time.Duration) forecast.Level {
		return forecast.Level{Threshold: nodepressure.Threshold{Grace: grace}, Limit: limit, Headroom: headroom}
	}
	tests := []struct {
		name      string
		available int64
		levels    []forecast.Level
		want      string
	}{
		{"empty", 100, nil, "░░░░░░░░░░"},
		{"half", 50, nil, "█████░░░░░"},
		{"full", 0, nil, "██████████"},
		{"beyond", -5, nil, "██████████"},
		{"more than all", 130, nil, "░░░░░░░░░░"},
		{"hard", 50, []forecast.Level{level(10, 40, 0)}, "█████░░░░│"},
		{"hard and soft", 50, []forecast.Level{level(10, 40, 0), level(30, 20, time.Minute)}, "█████░░┊░│"},
		{"both at one place", 50, []forecast.Level{level(10, 40, 0), level(11, 20, time.Minute)}, "█████░░░┊│"},
		{"met", 5, []forecast.Level{level(20, -15, 0)}, "████████│░"},
		{"threshold of nothing", 50, []forecast.Level{level(0, 50, 0)}, "█████░░░░│"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := forecast.Signal{Reading: &nodepressure.Reading{Available: tt.available, Capacity: 100}, Levels: tt.levels}
			if got := gauge(s, 10, Paint{}); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestShortenKeepsBothEnds(t *testing.T) {
	tests := []struct {
		text  string
		width int
		want  string
	}{
		{"shop/web", 8, "shop/web"}, {"shop/web-5d9c-x2x7l", 11, "shop/…x2x7l"}, {"shop/web", 2, "s…"}, {"", 3, ""},
	}
	for _, tt := range tests {
		if got := shorten(tt.text, tt.width); got != tt.want {
			t.Errorf("%q to %d: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestPressureSaysWhoseMemoryIsUsedUp(t *testing.T) {
	r := short()
	r.Node.Readings[nodepressure.AllocatableMemoryAvailable] = nodepressure.Reading{Available: 1 << 20, Capacity: r.Node.Memory / 2, At: r.At}
	p := asked(t, r, nodepressure.OrderKubelet, -1)
	page := strings.Join(p.Lines(80, Paint{}), "\n")
	if want := "OOM killer, if the pods have used all that they may together"; !strings.Contains(page, want) {
		t.Errorf("no %q in\n%s", want, page)
	}
	text, err := p.JSON()
	if err != nil || !strings.Contains(string(text), `"oomWithin": "allocatableMemory.available"`) && !strings.Contains(string(text), `"oomWithin":"allocatableMemory.available"`) {
		t.Errorf("%v\n%s", err, text)
	}
}
