package act

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/answers"
)

func TestPressureOnPods(t *testing.T) {
	tests := []struct {
		name string
		do   func(*Pressure) answers.Answer
		want request
	}{
		{
			"evict with the pod's own grace",
			func(p *Pressure) answers.Answer { return p.Evict(t.Context(), pod, 0) },
			request{http.MethodPost, podPath + "/eviction", "application/json", `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"web-1","namespace":"shop","annotations":{"usher.sh/skip-eviction-request":"true"}},"deleteOptions":{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"pod-uid"}}}`},
		},
		{
			"remove: never with grace 0, which would take it out of the API while it runs",
			func(p *Pressure) answers.Answer { return p.Remove(t.Context(), pod, 0) },
			request{http.MethodDelete, podPath, "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":1,"preconditions":{"uid":"pod-uid"}}`},
		},
		{
			"break the glass, without force: what a person wrote stays",
			func(p *Pressure) answers.Answer { return p.BreakGlass(t.Context(), pod, "memory is used up", false) },
			request{http.MethodPatch, podPath + "?fieldManager=usher-agent", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"pod-uid","annotations":{"usher.sh/break-glass":"memory is used up"}}}`},
		},
		{
			"break the glass with force: a blank value breaks nothing",
			func(p *Pressure) answers.Answer { return p.BreakGlass(t.Context(), pod, "memory is used up", true) },
			request{http.MethodPatch, podPath + "?fieldManager=usher-agent&force=true", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"pod-uid","annotations":{"usher.sh/break-glass":"memory is used up"}}}`},
		},
		{
			"and mend it where it is still one's own",
			func(p *Pressure) answers.Answer { return p.Unbreak(t.Context(), pod, "memory is used up") },
			request{http.MethodPatch, podPath + "?fieldManager=usher-agent", "application/json-patch+json", `[{"op":"test","path":"/metadata/uid","value":"pod-uid"},{"op":"test","path":"/metadata/annotations/usher.sh~1break-glass","value":"memory is used up"},{"op":"remove","path":"/metadata/annotations/usher.sh~1break-glass"}]`},
		},
		{
			"say that it was disrupted",
			func(p *Pressure) answers.Answer { return p.Disrupted(t.Context(), pod, noon, "memory is used up") },
			request{http.MethodPatch, podPath + "/status?fieldManager=usher", "application/strategic-merge-patch+json", `{"metadata":{"uid":"pod-uid"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-21T12:00:00Z","reason":"TerminationByUsherAgent","message":"memory is used up"}]}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, received := server(t, ok())
			answer := tt.do(&Pressure{Writer: &Writer{Client: client, OwnRequests: true}, Node: "a"})
			if answer.Code != answers.Accepted {
				t.Errorf("answer %+v", answer)
			}
			if diff := cmp.Diff([]request{tt.want}, *received); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// nodeServer serves one node and notes what is written on it.
func nodeServer(t *testing.T, node *corev1.Node) (*Pressure, *[]request) {
	t.Helper()
	var written []request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodGet {
			written = append(written, request{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(node); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &Pressure{Writer: &Writer{Client: client}, Node: node.Name}, &written
}

func TestShow(t *testing.T) {
	foreign := corev1.Taint{Key: "example.com/own", Effect: corev1.TaintEffectNoExecute}
	memory := agentTaint(corev1.NodeMemoryPressure)
	quiet := NodeSays{At: noon}
	said := func(says NodeSays) (all []corev1.NodeCondition) {
		for _, kind := range pressures {
			all = append(all, says.condition(kind))
		}
		return append(all, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse})
	}
	pressed := NodeSays{At: noon, True: []corev1.NodeConditionType{corev1.NodeMemoryPressure}}
	tests := []struct {
		name       string
		taints     []corev1.Taint
		conditions []corev1.NodeCondition
		says       NodeSays
		wantTaints string // "": not written
		wantStatus []string
	}{
		{"nothing to change", []corev1.Taint{foreign}, said(quiet), quiet, "", nil},
		{"pressure begins", []corev1.Taint{foreign}, said(quiet), pressed, `[{"key":"example.com/own","effect":"NoExecute"},{"key":"usher.sh/memory-pressure","effect":"NoSchedule"}]`, []string{"usher.sh/MemoryPressure=True"}},
		{"pressure ends", []corev1.Taint{memory, foreign}, said(pressed), quiet, `[{"key":"example.com/own","effect":"NoExecute"}]`, []string{"usher.sh/MemoryPressure=False"}},
		{
			"one ends as another begins",
			[]corev1.Taint{memory, foreign},
			said(pressed),
			NodeSays{At: noon, True: []corev1.NodeConditionType{corev1.NodeDiskPressure}},
			`[{"key":"example.com/own","effect":"NoExecute"},{"key":"usher.sh/disk-pressure","effect":"NoSchedule"}]`,
			[]string{"usher.sh/MemoryPressure=False", "usher.sh/DiskPressure=True"},
		},
		{
			"at the first start", nil, nil, quiet, "",
			[]string{"usher.sh/MemoryPressure=False", "usher.sh/DiskPressure=False", "usher.sh/PIDPressure=False"},
		},
		{
			"stopped: the taint goes, as nothing would take it back later",
			[]corev1.Taint{memory},
			said(pressed),
			NodeSays{At: noon, True: pressed.True, Over: true},
			`[]`,
			[]string{"usher.sh/MemoryPressure=Unknown", "usher.sh/DiskPressure=Unknown", "usher.sh/PIDPressure=Unknown"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, written := nodeServer(t, &corev1.Node{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
				ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "node-uid", ResourceVersion: "6"},
				Spec:       corev1.NodeSpec{Taints: tt.taints},
				Status:     corev1.NodeStatus{Conditions: tt.conditions},
			})
			if answer := p.Show(t.Context(), tt.says); answer.Code != answers.Accepted {
				t.Errorf("answer %+v", answer)
			}
			checkNode(t, *written, tt.wantTaints, tt.wantStatus)
		})
	}
}

func checkNode(t *testing.T, written []request, taints string, status []string) {
	t.Helper()
	var got []string
	tainted := ""
	for _, r := range written {
		var what struct {
			Metadata patchMeta       `json:"metadata"`
			Spec     json.RawMessage `json:"spec"`
			Status   nodeStatus      `json:"status"`
		}
		if err := json.Unmarshal([]byte(r.Body), &what); err != nil {
			t.Fatal(err)
		}
		if what.Metadata.UID != "node-uid" {
			t.Errorf("written without the node's UID: %s", r.Body)
		}
		for _, c := range what.Status.Conditions {
			got = append(got, string(c.Type)+"="+string(c.Status))
		}
		if what.Spec != nil {
			tainted = strings.TrimSuffix(strings.TrimPrefix(string(what.Spec), `{"taints":`), "}")
			if what.Metadata.ResourceVersion != "6" || r.Type != mergePatch {
				t.Errorf("taints written without the version that they were read at: %+v", r)
			}
		}
	}
	if diff := cmp.Diff(status, got); diff != "" || tainted != taints {
		t.Errorf("taints %s, want %s; conditions %s", tainted, taints, diff)
	}
}

func TestTell(t *testing.T) {
	client, received := server(t, ok())
	p := &Pressure{Writer: &Writer{Client: client}, Node: strings.Repeat("n", 200)}
	for _, e := range []Event{
		{At: noon, Pod: pod, Reason: "EvictedForPressure", Action: "Evict", Note: strings.Repeat("long ", 500)},
		{At: noon, Normal: true, Reason: "NoPressure", Action: "Relieve", Note: "over"},
	} {
		p.Record(t.Context(), e)
	}
	var paths []string
	for _, r := range *received {
		paths = append(paths, r.URL)
		var event struct {
			Metadata          metav1.ObjectMeta `json:"metadata"`
			Note              string            `json:"note"`
			ReportingInstance string            `json:"reportingInstance"`
			EventTime         time.Time         `json:"eventTime"`
		}
		if err := json.Unmarshal([]byte(r.Body), &event); err != nil {
			t.Fatal(err)
		}
		if len(event.Note) > 1024 || len(event.ReportingInstance) > 128 || len(event.Metadata.Name) > 253 || !event.EventTime.Equal(noon) {
			t.Errorf("the API does not take %s", r.Body)
		}
	}
	want := []string{"/apis/events.k8s.io/v1/namespaces/shop/events", "/apis/events.k8s.io/v1/namespaces/default/events"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}
