package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// boastful names a thousand members.
type boastful struct {
	mu    sync.Mutex
	asked map[string]bool
}

func (b *boastful) Members(_ context.Context, endpoint string) (Membership, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[endpoint] = true
	list := Membership{Cluster: 1, By: 1}
	for i := range 1_000 {
		list.Members = append(list.Members, Member{ID: uint64(i + 1), ClientURLs: []string{fmt.Sprintf("http://m%d:2379", i)}})
	}
	return list, nil
}

func (*boastful) Status(context.Context, string) (Status, error)   { return Status{}, errors.New("no") }
func (*boastful) Alarms(context.Context, string) ([]Alarm, error)  { return nil, nil }
func (*boastful) MoveLeader(context.Context, string, uint64) error { return nil }
func (*boastful) Close()                                           {}

func TestAListOfMembersDoesNotLeadToAnyNumberOfConnections(t *testing.T) {
	api := &boastful{asked: map[string]bool{}}
	s := Over(api, 0, []string{"http://one:2379"}, time.Second)
	for range 3 {
		if _, err := s.Observe(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(api.asked) > maxURLs+1 {
		t.Errorf("%d URLs were asked", len(api.asked))
	}
}
