package cluster

import (
	"fmt"
	"os"
)

// masters is the group that RBAC lets do everything.
const masters = "system:masters"

// users are the lab's own clients. Each has a name of its own, so that the audit log distinguishes them.
var users = []struct{ file, name, group string }{
	{"kubeconfig", "admin", masters},
	{"kube-controller-manager.kubeconfig", "system:kube-controller-manager", masters},
	{"kube-scheduler.kubeconfig", "system:kube-scheduler", masters},
	{"kwok.kubeconfig", "kwok", masters},
}

// auditPolicy keeps every request but the leases, which every node renews all the time, at the moment it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
`

// writeFiles makes certificates, keys, kubeconfigs and the audit policy.
func (c *Cluster) writeFiles() error {
	if err := c.makeCA(); err != nil {
		return err
	}
	if err := c.writeServerKeys(); err != nil {
		return err
	}
	for _, u := range users {
		if err := c.WriteKubeconfig(c.path(u.file), u.name, u.group); err != nil {
			return err
		}
	}
	return os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o644)
}

func (c *Cluster) writeServerKeys() error {
	serving, err := c.serverCert()
	if err != nil {
		return err
	}
	if err := c.writeKeyPair("apiserver", serving); err != nil {
		return err
	}
	kubelets, err := c.ClientCert("kube-apiserver-kubelet-client", masters)
	if err != nil {
		return err
	}
	if err := c.writeKeyPair("apiserver-kubelet-client", kubelets); err != nil {
		return err
	}
	_, pem, err := newKey()
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	return os.WriteFile(c.path("service-accounts.key"), pem, 0o600)
}
