package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// Fence powers machines off through Ironic.
type Fence struct {
	session *session
	node    *expression.Template
}

// ironicVersion is the first microversion in which nodes are found by all names that they may have, with capitals and underscores too.
const ironicVersion = "1.10"

// defaultNode is the name that Ironic has for a machine where the policy says nothing.
const defaultNode = "{{node.name}}"

// FenceSecrets are the entries of Secrets that a fence refers to.
func FenceSecrets(spec *v1alpha1.IronicFence) []v1alpha1.SecretKey {
	keys := []v1alpha1.SecretKey{spec.Clouds}
	if spec.CA != nil {
		keys = append(keys, *spec.CA)
	}
	return keys
}

// NewFence compiles a fence. It does not connect. Without the values of its Secrets it says what is wrong with the rest, and must not be used.
func NewFence(spec *v1alpha1.IronicFence, access system.Access) (*Fence, error) {
	l, err := expression.NewLanguage(expression.Schema{Fence: true})
	if err != nil {
		return nil, err
	}
	said := spec.Node
	if said == "" {
		said = defaultNode
	}
	f := &Fence{session: &session{}}
	if f.node, err = l.Template(said); err != nil {
		return nil, fmt.Errorf("fence.ironic.node: %w", err)
	}
	for _, e := range f.node.Expressions() {
		if e.Names(expression.AnswerVariable) || !e.NamesOnly(expression.NodeVariable) {
			return nil, fmt.Errorf("fence.ironic.node: {{%s}} may speak of node alone", e.Text)
		}
	}
	if access.Secrets == nil {
		return f, nil
	}
	found, err := parseClouds(access.Secrets[spec.Clouds], "spec.fence.ironic", spec.Cloud)
	if err != nil {
		return nil, fmt.Errorf("entry %q of the Secret %q: %w", spec.Clouds.Key, spec.Clouds.Name, err)
	}
	if spec.Region != "" {
		found.region = spec.Region
	}
	var ca []byte
	if spec.CA != nil {
		ca = append([]byte{}, access.Secrets[*spec.CA]...)
	}
	if f.session, err = newSession(found, access, ca); err != nil {
		return nil, fmt.Errorf("entry %q of the Secret %q: %w", spec.CA.Key, spec.CA.Name, err)
	}
	return f, nil
}

// Close implements system.Fence.
func (f *Fence) Close() { f.session.close() }

// machine is what Ironic says of one.
type machine struct {
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	Power       string `json:"power_state"`
	Target      string `json:"target_power_state"`
	Maintenance bool   `json:"maintenance"`
	LastError   string `json:"last_error"`
	Instance    struct {
		Name string `json:"display_name"`
	} `json:"instance_info"`
}

// The words of Ironic for power.
const (
	powerOff = "power off"
	powerOn  = "power on"
)

// baremetal returns Ironic, logged in.
func (s *session) baremetal(ctx context.Context) (*gophercloud.ServiceClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, client, _, err := s.service(ctx, "baremetal")
	if err != nil {
		return nil, err
	}
	s.token = l
	client.ResourceBase = strings.TrimSuffix(client.Endpoint, "v1/") + "v1/"
	client.Microversion = ironicVersion
	return client, nil
}

// find asks for the machine of a node. One that is not certainly it is none.
func (f *Fence) find(ctx context.Context, of system.Machine) (*gophercloud.ServiceClient, *machine, error) {
	id, err := f.node.Expand(of.Scope(nil), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("fence.ironic.node: %w", err)
	}
	if id = strings.TrimSpace(id); id == "" {
		return nil, nil, errors.New("fence.ironic.node gives an empty name")
	}
	client, err := f.session.baremetal(ctx)
	if err != nil {
		return nil, nil, err
	}
	var m machine
	if _, err := client.Get(ctx, client.ServiceURL("nodes", url.PathEscape(id)), &m, nil); err != nil {
		err = f.failed(client, "asking for node "+text.Name(id), err)
		if statusOf(err) == http.StatusNotFound {
			err = fmt.Errorf("%w: have spec.fence.ironic.node give the name or the UUID that Ironic has for the machine (baremetal node list), unless the account may not see it", err)
		}
		return nil, nil, err
	}
	return client, &m, m.is(id, of.Node.Name)
}

// is returns an error where the machine is not the one that was asked for, or carries an instance of another name than the node's: the wrong one
// would be turned off, and its silence taken as a proof.
func (m *machine) is(id, node string) error {
	switch {
	case m.UUID == "" || !strings.EqualFold(m.UUID, id) && m.Name != id:
		return fmt.Errorf("the baremetal API was asked for node %s and answers with %s (%s)", text.Name(id), text.Name(m.Name), text.Name(m.UUID))
	case m.Instance.Name != "" && hostname(m.Instance.Name) != hostname(node):
		return fmt.Errorf("node %s of Ironic carries the instance %s, and not node %s: have spec.fence.ironic.node give the one that carries it (baremetal node list)",
			text.Name(id), text.Name(m.Instance.Name), node)
	}
	return nil
}

// hostname is what Nova makes of an instance's name, up to the first dot.
func hostname(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '_':
			return '-'
		case r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, name), "-")
}

// State implements system.Fence. Ironic repeats what it has read of a machine's power last: of one in maintenance it reads nothing any more, and
// where it could not carry out a request, that is beside the error.
func (f *Fence) State(ctx context.Context, of system.Machine) (v1alpha1.PowerState, string) {
	_, m, err := f.find(ctx, of)
	if err != nil {
		return v1alpha1.PowerUnknown, err.Error()
	}
	said := "Ironic says of " + text.Name(m.UUID) + ": "
	switch {
	case m.Maintenance:
		return v1alpha1.PowerUnknown, said + "in maintenance, where it does not read the power itself" + m.failure() +
			"; mend that and take it out of maintenance (baremetal node maintenance unset)"
	case m.Target != "":
		return v1alpha1.PowerUnknown, said + text.Line(m.Power) + ", on its way to " + text.Line(m.Target)
	case m.Power == powerOff && m.LastError != "":
		return v1alpha1.PowerUnknown, said + powerOff + ", and not whether it was read since" + m.failure()
	case m.Power == powerOff:
		return v1alpha1.PowerOff, said + powerOff
	case m.Power == powerOn:
		return v1alpha1.PowerOn, said + powerOn + m.failure()
	}
	return v1alpha1.PowerUnknown, said + "its power is not known (" + text.Name(m.Power) + ")" + m.failure()
}

func (m *machine) failure() string {
	if m.LastError == "" {
		return ""
	}
	const most = 200
	return "; its last error: " + text.Cut(text.Line(m.LastError), most)
}

// Off implements system.Fence. Ironic accepts one change at a time for a node, and refuses another while that lasts (409).
func (f *Fence) Off(ctx context.Context, of system.Machine) (v1alpha1.RequestResult, string) {
	client, m, err := f.find(ctx, of)
	if err != nil {
		return v1alpha1.RequestNotSent, err.Error()
	}
	body := map[string]string{"target": powerOff}
	_, err = client.Put(ctx, client.ServiceURL("nodes", url.PathEscape(m.UUID), "states", "power"), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return resultOf(err), f.failed(client, "powering node "+text.Name(m.UUID)+" off", err).Error()
	}
	return v1alpha1.RequestAccepted, "Ironic was asked to power " + text.Name(m.UUID) + " off"
}

// resultOf says whether a request that failed may have been received.
func resultOf(err error) v1alpha1.RequestResult {
	if status := statusOf(err); status != 0 {
		if status < http.StatusInternalServerError {
			return v1alpha1.RequestRefused
		}
		return v1alpha1.RequestUnknown
	}
	if dialled, ok := errors.AsType[*net.OpError](err); ok && dialled.Op == "dial" {
		return v1alpha1.RequestNotSent
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return v1alpha1.RequestNotSent
	}
	return v1alpha1.RequestUnknown
}

// failed is an error of a call.
func (f *Fence) failed(client *gophercloud.ServiceClient, doing string, err error) error {
	err = f.session.sentence(err)
	switch statusOf(err) {
	case http.StatusForbidden:
		err = fmt.Errorf("%w: the account needs the role member of the system or of the project that owns the machine, or baremetal:node:set_power_state", err)
	case http.StatusNotAcceptable:
		err = fmt.Errorf("%w: Ironic must speak microversion %s", err, ironicVersion)
	}
	return fmt.Errorf("baremetal API at %s, %s: %w", address(client.Endpoint), doing, err)
}
