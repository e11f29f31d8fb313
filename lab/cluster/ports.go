package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// ports are those of one lab, all on 127.0.0.1. The controller-manager and the scheduler serve none.
type ports struct {
	EtcdClient int `json:"etcdClient"`
	EtcdPeer   int `json:"etcdPeer"`
	APIServer  int `json:"apiserver"`
}

// Ports come from below the range that the kernel gives to outgoing connections (32768 on Linux), so that none of
// them takes the apiserver's port while it is down for a restart. They are drawn at random, so that labs that start
// side by side do not try the same ones.
const (
	firstPort = 20000
	lastPort  = 32000
)

func freePorts(ctx context.Context) (ports, error) {
	var p ports
	for _, port := range []*int{&p.EtcdClient, &p.EtcdPeer, &p.APIServer} {
		var err error
		if *port, err = freePort(ctx); err != nil {
			return ports{}, err
		}
	}
	if p.EtcdClient == p.EtcdPeer || p.EtcdClient == p.APIServer || p.EtcdPeer == p.APIServer {
		return freePorts(ctx)
	}
	return p, nil
}

func freePort(ctx context.Context) (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, errors.Join(fmt.Errorf("finding a free port between %d and %d on 127.0.0.1", firstPort, lastPort), last)
}
