package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// clusterRead is what one round of questions brought.
type clusterRead struct {
	list Membership
	said []response // in the order of the URLs
}

// response is what one URL answered.
type response struct {
	url    string
	status Status
	err    error // of status
	// list is the member's own view, confirmed by the quorum; listErr why there is none.
	list    Membership
	listErr error
}

// look asks all endpoints and members. It fails only if none returns a list of members that a quorum has confirmed.
func (c *cluster) look(ctx context.Context) (*clusterRead, error) {
	urls := c.known()
	all := c.ask(ctx, urls, 3)
	list, err := c.list(all)
	if err != nil {
		return nil, err
	}
	more := slices.DeleteFunc(c.urlsOf(list), func(u string) bool { return slices.Contains(urls, u) })
	all = append(all, c.ask(ctx, more, 2)...)
	c.remember(c.urlsOf(list))
	return &clusterRead{list: list, said: all}, nil
}

// list takes the first list that a quorum has confirmed, in the order of the URLs.
func (c *cluster) list(all []response) (Membership, error) {
	var causes []error
	for _, s := range all {
		switch {
		case s.listErr != nil:
			causes = append(causes, fmt.Errorf("%s: %s", s.url, words(s.listErr)))
		case len(s.list.Members) > maxMembers:
			causes = append(causes, fmt.Errorf("%s: it names %d members, and %d are accepted at most", s.url, len(s.list.Members), maxMembers))
		default:
			return s.list, nil
		}
	}
	return Membership{}, fmt.Errorf("no endpoint gives a list of members that a quorum confirms: %w", joined(causes))
}

// joined writes the errors in one line.
func joined(errs []error) error {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return errors.New(strings.Join(lines, "; "))
}

// ask puts the questions to all URLs at once. rounds is how many rounds are still to come, this one included: a URL that
// does not answer must not use up the time of those after it.
func (c *cluster) ask(ctx context.Context, urls []string, rounds int) []response {
	ctx, cancel := context.WithTimeout(ctx, c.share(ctx, rounds))
	defer cancel()
	answers := make([]response, len(urls))
	var wait sync.WaitGroup
	for i, url := range urls {
		wait.Go(func() { answers[i] = c.askOne(ctx, url) })
	}
	wait.Wait()
	return answers
}

// askOne reads through the quorum first: what the member then says of itself is at least as new as that. Time is left for
// it to say that it does not reach the quorum.
func (c *cluster) askOne(ctx context.Context, url string) response {
	s := response{url: url}
	read, cancel := context.WithTimeout(ctx, c.share(ctx, 2))
	s.list, s.listErr = c.api.Members(read, url)
	cancel()
	s.status, s.err = c.api.Status(ctx, url)
	return s
}

func (c *cluster) share(ctx context.Context, rounds int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return c.timeout
	}
	return min(c.timeout, time.Until(deadline)/time.Duration(rounds))
}

// Limits far above what a cluster has. Members whose URLs are beyond maxURLs are not asked, and do not count as healthy.
const (
	maxMembers = 64
	maxURLs    = maxConns / 2
)

// urlsOf are the client URLs of the members, sorted. Where the policy's endpoints are all encrypted, those that are not
// are left out: credentials do not leave in the clear because a member says so.
func (c *cluster) urlsOf(list Membership) []string {
	open := slices.ContainsFunc(c.endpoints, func(e string) bool { return !strings.HasPrefix(e, "https://") })
	urls := map[string]struct{}{}
	for _, m := range list.Members {
		for _, u := range m.ClientURLs {
			if open || strings.HasPrefix(u, "https://") {
				urls[u] = struct{}{}
			}
		}
	}
	all := slices.Sorted(maps.Keys(urls))
	return all[:min(len(all), maxURLs)]
}

// known are the policy's endpoints, and the client URLs of the members at the last look: with them, one round is enough.
func (c *cluster) known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	urls := slices.Clone(c.endpoints)
	for _, u := range c.urls {
		if !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	return urls
}

func (c *cluster) remember(urls []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.urls = urls
}
