package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// boastful names many members with many URLs.
type boastful struct {
	members int

	mu    sync.Mutex
	asked map[string]bool
}

func (b *boastful) Members(_ context.Context, endpoint string) (Membership, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[endpoint] = true
	list := Membership{Cluster: 1, By: 1}
	for i := range b.members {
		member := Member{ID: uint64(i + 1)}
		for port := range 20 {
			member.ClientURLs = append(member.ClientURLs, fmt.Sprintf("http://m%d:%d", i, port+1))
		}
		list.Members = append(list.Members, member)
	}
	return list, nil
}

func (*boastful) Status(context.Context, string) (Status, error)     { return Status{}, errors.New("no") }
func (*boastful) Alarms(context.Context, string) ([]Alarm, error)    { return nil, nil }
func (*boastful) MoveLeader(context.Context, string, uint64) error   { return nil }
func (*boastful) AddLearner(context.Context, string, []string) error { return nil }
func (*boastful) Promote(context.Context, string, uint64) error      { return nil }
func (*boastful) Remove(context.Context, string, uint64) error       { return nil }
func (*boastful) Close()                                             {}

func TestAListOfMembersDoesNotLeadToAnyNumberOfConnections(t *testing.T) {
	api := &boastful{members: 5, asked: map[string]bool{}}
	s := Over(api, 0, []string{"http://one:2379"}, time.Minute)
	for range 3 {
		if _, err := s.Observe(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(api.asked) > maxURLs+1 {
		t.Errorf("%d URLs were asked", len(api.asked))
	}
	api.members = 1_000
	s = Over(api, 0, []string{"http://one:2379"}, time.Minute)
	if _, err := s.Observe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it names 1000 members, and 64 are accepted at most") {
		t.Errorf("error %v", err)
	}
}
