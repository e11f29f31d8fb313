package cluster

import (
	"errors"

	"usher.sh/usher/lab/port"
)

// ports are those of one lab, all on 127.0.0.1. The controller-manager and the scheduler serve none.
type ports struct {
	EtcdClient int `json:"etcdClient"`
	EtcdPeer   int `json:"etcdPeer"`
	APIServer  int `json:"apiserver"`
}

// keepPorts finds ports for the lab, and keeps them for as long as this program runs or until it ends the lab: also while
// the apiserver is down for a restart.
func (c *Cluster) keepPorts() error {
	for _, number := range []*int{&c.ports.EtcdClient, &c.ports.EtcdPeer, &c.ports.APIServer} {
		p, err := port.Keep()
		if err != nil {
			return err
		}
		c.kept = append(c.kept, p)
		*number = p.Number
	}
	return nil
}

func (c *Cluster) releasePorts() error {
	var errs []error
	for _, p := range c.kept {
		errs = append(errs, p.Release())
	}
	c.kept = nil
	return errors.Join(errs...)
}
