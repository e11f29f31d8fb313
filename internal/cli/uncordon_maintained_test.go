package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// A node that a NodeMaintenance has in work is left to it: the manager would count it as blocked. The record alone keeps no node.
func TestUncordonLeavesNodesToTheirMaintenance(t *testing.T) {
	for name, c := range map[string]struct {
		id       string
		has      types.UID // of the node in the maintenance's status; "": of none
		answer   int       // of the API of maintenances
		want     string
		uncordon bool
	}{
		"a maintenance has it":              {snapshot.MaintenancePrefix + "1", "a", http.StatusOK, "NodeMaintenance kernel has node a;", false},
		"it had another node of its name":   {snapshot.MaintenancePrefix + "1", "b", http.StatusOK, "uncordoned", true},
		"its maintenance is gone":           {snapshot.MaintenancePrefix + "1", "", http.StatusOK, "uncordoned", true},
		"maintenances are not served":       {snapshot.MaintenancePrefix + "1", "", http.StatusNotFound, "uncordoned", true},
		"maintenances may not be read":      {snapshot.MaintenancePrefix + "1", "", http.StatusForbidden, "not changed: reading which NodeMaintenance has node a", false},
		"the drain of a person has left it": {"1", "a", http.StatusOK, "uncordoned", true},
	} {
		t.Run(name, func(t *testing.T) {
			record := snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: c.id, By: "me@host", Beat: time.Now().Add(-time.Hour)}, Cordoned: true, State: "drained"}
			nodes := &nodeServer{objects: fake.NewClientset(drainedNode(t, record))}
			m := v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "kernel"}}
			if c.has != "" {
				m.Status.Nodes = []v1alpha1.MaintainedNode{{Name: "a", UID: c.has}}
			}
			server := httptest.NewServer(beside(nodes, c.answer, m))
			defer server.Close()
			flags := genericclioptions.NewConfigFlags(false)
			flags.APIServer = &server.URL
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			command := newUncordonCommand(flags, streams)
			command.SetArgs([]string{"a"})
			command.SilenceErrors, command.SilenceUsage = true, true
			if err := command.ExecuteContext(t.Context()); (err == nil) != c.uncordon {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("it says %q, want %q", out, c.want)
			}
			node, err := nodes.objects.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || node.Spec.Unschedulable == c.uncordon {
				t.Errorf("unschedulable %t, %v", node.Spec.Unschedulable, err)
			}
		})
	}
}

// beside serves maintenances beside nodes.
func beside(nodes *nodeServer, code int, all ...v1alpha1.NodeMaintenance) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/nodemaintenances") {
			var body bytes.Buffer
			list := any(v1alpha1.NodeMaintenanceList{TypeMeta: metav1.TypeMeta{APIVersion: "usher.sh/v1alpha1", Kind: "NodeMaintenanceList"}, Items: all})
			if code != http.StatusOK {
				reason := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden}[code]
				list = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason} //nolint:gosec // three digits
			}
			_ = json.NewEncoder(&body).Encode(list)
			w.WriteHeader(code)
			_, _ = io.Copy(w, &body)
			return
		}
		answer, err := nodes.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}
}
