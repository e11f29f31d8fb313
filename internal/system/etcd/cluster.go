package etcd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
)

// cluster is a System over an API.
type cluster struct {
	api       API
	maxLag    int64
	endpoints []string
	timeout   time.Duration

	mu   sync.Mutex
	urls []string // client URLs of the members at the last look
}

func (c *cluster) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	l, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	asked := make([]string, len(members))
	for i, m := range members {
		asked[i] = m.ID
	}
	v := judge(l)
	v.distrust(members)
	return v.evidence(c.alarms(ctx, v), c.maxLag, asked), nil
}

// alarms asks one voter after the other, healthy ones first, since each answer costs the cluster an entry in its log.
func (c *cluster) alarms(ctx context.Context, v *view) alarms {
	voters := slices.DeleteFunc(v.voters(), func(s *memberState) bool { return !s.answered() })
	slices.SortStableFunc(voters, func(a, b *memberState) int { return cmp.Compare(len(a.why), len(b.why)) })
	for i, s := range voters {
		ctx, cancel := context.WithTimeout(ctx, c.share(ctx, len(voters)-i))
		all, err := c.api.Alarms(ctx, s.url)
		cancel()
		if err == nil {
			return alarms{known: true, all: all}
		}
	}
	return alarms{}
}

func (c *cluster) Close() { c.api.Close() }
