package policycache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
)

// Source is what declares a system, as it was read: a policy. It must not be changed once an Observer has it.
type Source struct {
	UID       types.UID
	Namespace string
	Name      string
	// Generation is that of the spec. Epoch counts the members that were let go since.
	Generation int64
	Epoch      int64

	System *v1alpha1.System
	Limits v1alpha1.EvidenceLimits
	// ServiceAccount is impersonated for writes; "": no account is.
	ServiceAccount string

	// Members lists what the system is asked about, as it knows them; nil: it is asked by calls alone, and not in the background.
	Members func(ctx context.Context) ([]system.Member, error)
	// Uses returns the facts that are asked for: no others are kept. nil: all are.
	Uses func() expression.Uses
	// Changed is called when the system says something new, unless it is nil. It must not block.
	Changed func()
}

// MaxAge is how old evidence may be when it decides about members of the source.
func (s *Source) MaxAge() time.Duration {
	if d := s.Limits.MaxAge.Duration; d > 0 {
		return d
	}
	return eviction.DefaultMaxAge
}

// defaultTimeout is the API's default, for what was declared without it.
const defaultTimeout = 5 * time.Second

// timeout is how long a call to the system may take.
func (s *Source) timeout() time.Duration {
	if d := s.Limits.Timeout.Duration; d > 0 {
		return d
	}
	return defaultTimeout
}

func (s *Source) version() version { return version{generation: s.Generation, epoch: s.Epoch} }
