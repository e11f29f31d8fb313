package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// maxConns is far above what a cluster needs. A pool that outgrows it holds URLs of members that are long gone.
const maxConns = 128

// maxMessage is how many bytes an answer may have.
const maxMessage = 4 << 20

// client speaks to real members. It keeps one connection for each endpoint, and dials anew once an answer has failed to
// come: so neither a dead connection nor a long back-off outlives one look.
type client struct {
	tls                *tls.Config
	username, password string
	timeout            time.Duration
	dialer             *net.Dialer

	mu     sync.Mutex
	conns  map[string]*conn
	closed bool
}

// conn is a connection that the first call that needs it dials; the others wait for it.
type conn struct {
	once sync.Once
	etcd *clientv3.Client
	err  error
}

func newClient(spec *v1alpha1.Etcd, access system.Access) (*client, error) {
	c := &client{tls: access.TLS, timeout: access.Timeout, dialer: access.Dialer(), conns: map[string]*conn{}}
	if spec.Auth == nil {
		return c, nil
	}
	var err error
	if c.username, err = secret(access, spec.Auth.Name, "username"); err != nil {
		return nil, err
	}
	c.password, err = secret(access, spec.Auth.Name, "password")
	return c, err
}

func secret(access system.Access, name, key string) (string, error) {
	value := access.Secrets[v1alpha1.SecretKey{Name: name, Key: key}]
	if len(value) == 0 {
		return "", fmt.Errorf("opening etcd: secret %s has no %s", name, key)
	}
	return string(value), nil
}

func (c *client) Members(ctx context.Context, endpoint string) (Membership, error) {
	return call(ctx, c, endpoint, func(etcd *clientv3.Client) (Membership, error) {
		r, err := etcd.MemberList(ctx)
		if err != nil {
			return Membership{}, err
		}
		m := Membership{Cluster: r.Header.GetClusterId(), By: r.Header.GetMemberId()}
		for _, x := range r.Members {
			m.Members = append(m.Members, Member{ID: x.ID, Name: x.Name, PeerURLs: x.PeerURLs, ClientURLs: x.ClientURLs, Learner: x.IsLearner})
		}
		return m, nil
	})
}

// Status does not use the client's own method, which dials anew for each call.
func (c *client) Status(ctx context.Context, endpoint string) (Status, error) {
	return call(ctx, c, endpoint, func(etcd *clientv3.Client) (Status, error) {
		r, err := etcdserverpb.NewMaintenanceClient(etcd.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
		if err != nil {
			return Status{}, err
		}
		return Status{
			Cluster:   r.GetHeader().GetClusterId(),
			Member:    r.GetHeader().GetMemberId(),
			Leader:    r.GetLeader(),
			Term:      r.GetRaftTerm(),
			Committed: r.GetRaftIndex(),
			Applied:   r.GetRaftAppliedIndex(),
			Learner:   r.GetIsLearner(),
			Version:   r.GetVersion(),
			Errors:    r.GetErrors(),
		}, nil
	})
}

func (c *client) Alarms(ctx context.Context, endpoint string) ([]Alarm, error) {
	return call(ctx, c, endpoint, func(etcd *clientv3.Client) ([]Alarm, error) {
		r, err := etcd.AlarmList(ctx)
		if err != nil {
			return nil, err
		}
		var all []Alarm
		for _, a := range r.Alarms {
			all = append(all, Alarm{Member: a.MemberID, Name: a.Alarm.String()})
		}
		return all, nil
	})
}

func (c *client) MoveLeader(ctx context.Context, endpoint string, to uint64) error {
	_, err := call(ctx, c, endpoint, func(etcd *clientv3.Client) (struct{}, error) {
		_, err := etcd.MoveLeader(ctx, to)
		return struct{}{}, refusal(err)
	})
	return err
}

func (c *client) AddLearner(ctx context.Context, endpoint string, peerURLs []string) error {
	_, err := call(ctx, c, endpoint, func(etcd *clientv3.Client) (struct{}, error) {
		_, err := etcd.MemberAddAsLearner(ctx, peerURLs)
		return struct{}{}, refusal(err)
	})
	return err
}

func (c *client) Promote(ctx context.Context, endpoint string, id uint64) error {
	_, err := call(ctx, c, endpoint, func(etcd *clientv3.Client) (struct{}, error) {
		_, err := etcd.MemberPromote(ctx, id)
		return struct{}{}, refusal(err)
	})
	return err
}

func (c *client) Remove(ctx context.Context, endpoint string, id uint64) error {
	_, err := call(ctx, c, endpoint, func(etcd *clientv3.Client) (struct{}, error) {
		_, err := etcd.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return struct{}{}, nil
		}
		return struct{}{}, refusal(err)
	})
	return err
}

// Close ends all connections; calls that are under way fail.
func (c *client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.forgetAll()
}

// call asks over the endpoint's connection.
func call[T any](ctx context.Context, c *client, endpoint string, ask func(*clientv3.Client) (T, error)) (T, error) {
	conn, err := c.conn(endpoint)
	if err == nil {
		conn.once.Do(func() { conn.etcd, conn.err = c.dial(ctx, endpoint) })
		err = conn.err
	}
	var answer T
	if err == nil {
		answer, err = ask(conn.etcd)
	}
	if conn != nil && (conn.err != nil || broken(err)) {
		c.forget(endpoint, conn)
	}
	return answer, err
}

// dial makes a connection without waiting for it, unless a password has to be shown first.
func (c *client) dial(ctx context.Context, endpoint string) (*clientv3.Client, error) {
	timeout := c.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		TLS:         c.tls,
		Username:    c.username,
		Password:    c.password,
		DialTimeout: timeout,
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(failFast), grpc.WithContextDialer(c.connect), grpc.WithNoProxy(),
		},
		// What is asked for is a list of members at most.
		MaxCallSendMsgSize: maxMessage,
		MaxCallRecvMsgSize: maxMessage,
		// Twice: the second time with a new token, where the first has run out.
		MaxUnaryRetries: 2,
		Logger:          zap.NewNop(),
	})
}

// connect never opens a socket of the machine's own file system, which a member's URL may name as well.
func (c *client) connect(ctx context.Context, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, "tcp", address)
}

// failFast reports a refused connection at once. The client would wait for it until its time is up.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

func (c *client) conn(endpoint string) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the client is closed")
	}
	if len(c.conns) > maxConns {
		c.forgetAll()
	}
	if c.conns[endpoint] == nil {
		c.conns[endpoint] = &conn{}
	}
	return c.conns[endpoint], nil
}

func (c *client) forget(endpoint string, gone *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns[endpoint] == gone {
		delete(c.conns, endpoint)
		gone.close()
	}
}

func (c *client) forgetAll() {
	for _, conn := range c.conns {
		conn.close()
	}
	clear(c.conns)
}

// close waits for the call that dials.
func (c *conn) close() {
	c.once.Do(func() { c.err = errors.New("the client is closed") })
	if c.etcd != nil {
		_ = c.etcd.Close() // nothing is lost with a connection
	}
}

// broken reports whether a new connection may help. A member that has not joined yet answers every call with HTTP's 404, which gRPC takes for
// Unimplemented, and goes on with that on connections from before it has.
func broken(err error) bool {
	code := status.Code(err)
	if said := (rpctypes.EtcdError{}); errors.As(err, &said) {
		code = said.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Unauthenticated, codes.Unknown, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// refusal names the answers that asking again will not change.
func refusal(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNotLeader):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return fmt.Errorf("%w: %w", ErrLearnerNotReady, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return err
}
