package recipes_test

import (
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// sending is recorded answers, and what is sent beside questions.
type sending struct {
	*recorded

	sent []string
}

func (s *sending) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	if r.Method == nethttp.MethodGet {
		return s.recorded.RoundTrip(r)
	}
	s.sent = append(s.sent, r.Method+" "+strings.TrimPrefix(r.URL.String(), "http://system"))
	return answer(nethttp.StatusOK, ""), nil
}

// membership is a recipe's system, and the member in a pod of it.
func membership(t *testing.T, name, role, pod string, server nethttp.RoundTripper) (system.Membership, system.Member) {
	t.Helper()
	d := newDesk(t, name, server)
	claim, ok := d.judging.Claim(d.pod(t, role, pod))
	if !ok {
		t.Fatalf("%s is no member", pod)
	}
	member := system.Member{MemberRef: v1alpha1.MemberRef{Role: role, ID: claim.Member, PodName: pod}, Pod: &snapshot.Pod{Namespace: d.policy.Namespace, Name: pod}}
	return d.system.(system.Membership), member
}

// Replicas of quorum queues are taken off a lost node of RabbitMQ, and queues get one on its successor.
func TestRabbitMQMovesReplicas(t *testing.T) {
	for _, test := range []struct {
		files        []string
		left, joined bool
		sent         []string
	}{
		{files: []string{"forgotten"}, joined: true, sent: []string{"DELETE /api/queues/quorum/replicas/on/rabbit%40rabbitmq-server-2.rabbitmq-nodes.rabbitmq/shrink"}},
		{files: []string{"forgotten", "shrunk"}, left: true, sent: []string{"POST /api/queues/quorum/replicas/on/rabbit%40rabbitmq-server-2.rabbitmq-nodes.rabbitmq/grow"}},
		{files: []string{"forgotten", "grown"}, joined: true},
	} {
		server := &sending{recorded: newRecorded(t, "rabbitmq", test.files...)}
		m, member := membership(t, "rabbitmq", "rabbitmq", "rabbitmq-server-2", server)
		listing, err := m.Listed(t.Context(), member, &v1alpha1.MemberRegistration{ID: member.ID})
		if err != nil || listing.Predecessor == test.left || listing.Joined != test.joined {
			t.Errorf("%q: %+v, %v", test.files, listing, err)
		}
		switch {
		case !test.left && len(test.sent) > 0:
			_, err = m.Leave(t.Context(), member, nil)
		case !test.joined:
			_, err = m.Join(t.Context(), member, nil)
		}
		if diff := cmp.Diff(test.sent, server.sent); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", test.files, err, diff)
		}
	}
}

// A successor of Elasticsearch whose predecessor's name is excluded gets shards again; another's name stays excluded.
func TestElasticsearchTakesShardsAgain(t *testing.T) {
	server := &elasticsearch{status: "yellow", shards: map[string]int{"es-0": 0}, settings: map[string]any{exclusion: "es-0"}}
	for _, pod := range []string{"es-1", "es-0"} {
		m, member := membership(t, "elasticsearch", "elasticsearch-data", pod, server)
		if listing, err := m.Listed(t.Context(), member, nil); err != nil || listing.Joined != (pod == "es-1") {
			t.Errorf("%s: %+v, %v", pod, listing, err)
		}
		for range 2 {
			if _, err := m.Join(t.Context(), member, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"<nil>"}, server.puts); diff != "" {
		t.Error(diff)
	}
}
