package cli

import (
	"strings"
	"testing"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/snapshot"
)

// What may not be read is not said to be absent.
func TestOwnersThatMayNotBeRead(t *testing.T) {
	tests := []struct{ kind, gap, want string }{
		{"deployment", "replicasets", `what deployment "web" of namespace shop owns is not known: replicasets cannot be read (forbidden)`},
		{"cronjob", "jobs", `what cronjob "web" of namespace shop owns is not known: jobs cannot be read (forbidden)`},
		{"deployment", "jobs", `namespace shop has no deployment "web" that owns pods`},
		{"statefulset", "replicasets", `namespace shop has no statefulset "web" that owns pods`},
	}
	for _, tt := range tests {
		c := snapshot.NewCluster()
		c.SetPod(&snapshot.Pod{Namespace: "shop", Name: "web-1-a", UID: "p", Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "r"}})
		c.SetGap(snapshot.Gap{Resource: tt.gap, Reason: "forbidden", Final: true})
		_, err := podsNamed(c, "shop", subject{kind: tt.kind, name: "web"}, show.Commands{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s without %s: %v, want %q", tt.kind, tt.gap, err, tt.want)
		}
	}
}
