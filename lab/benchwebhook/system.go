package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"usher.sh/usher/api/v1alpha1"
)

// database is the system of the governed pods: it says of each member how many shards it leads and has in sync.
type database struct {
	server *httptest.Server
	answer []byte
	calls  atomic.Int64
}

type health struct {
	Shards    map[string]shards `json:"shards"` // by member
	Unhealthy []string          `json:"unhealthy"`
}

type shards struct {
	All    int    `json:"all"`
	InSync int    `json:"inSync"`
	Leads  int    `json:"leads"`
	Zone   string `json:"zone"`
	Uptime int    `json:"uptime"`
}

func newDatabase(members []string) (*database, error) {
	said := health{Shards: map[string]shards{}, Unhealthy: []string{}}
	for i, name := range members {
		said.Shards[name] = shards{All: 12, InSync: 12, Zone: "zone-" + string(rune('a'+i%3)), Uptime: 86400 + i}
	}
	answer, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	d := &database{answer: answer}
	d.server = httptest.NewServer(d)
	return d, nil
}

// ServeHTTP answers GET /health.
func (d *database) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(d.answer)
}

func (d *database) system() v1alpha1.System {
	return v1alpha1.System{HTTP: &v1alpha1.HTTP{
		Access:  v1alpha1.Access{Endpoints: []string{d.server.URL}},
		Facts:   []v1alpha1.Get{{Name: "health", URL: "/health"}},
		Summary: "'unhealthy: ' + string(system.health.unhealthy.size())",
	}}
}

// member is a role with rules, and one member on its way at a time; router has neither.
func roles() []v1alpha1.Role {
	return []v1alpha1.Role{
		{
			Name: memberRole, System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{
				{
					Name: "known", Reason: "Unknown", Expression: "member.id in system.health.shards",
					Message: "the database does not know {{member.id}}",
				},
				{
					Name: "in-sync", Reason: "BehindWithShards",
					Expression: "system.health.shards[member.id].inSync == system.health.shards[member.id].all",
					Message:    "{{member.id}} has {{system.health.shards[member.id].inSync}} of {{system.health.shards[member.id].all}} shards in sync",
				},
				{
					Name: "follower", Reason: "LeadsShards", Expression: "system.health.shards[member.id].leads == 0",
					Message: "{{member.id}} leads {{system.health.shards[member.id].leads}} shards",
				},
				{
					Name: "others-healthy", Reason: "OthersUnhealthy", Expression: "system.health.unhealthy.all(m, m == member.id)",
					Message: "others are not healthy: {{system.health.unhealthy}}",
				},
			}},
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
		},
		{
			Name: routerRole, System: "http", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone,
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
		},
	}
}
