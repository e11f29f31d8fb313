package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

// NodeNotices reads what decides about the notices of one node.
type NodeNotices struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Node is the node's name, Namespace the manager's, which has the configuration.
	Node, Namespace string
}

// NoticeView is what was read.
type NoticeView struct {
	Node *notice.Node // nil: there is none
	// Config is the default where ConfigError says what is wrong with the one that is written, and where none is.
	Config      *notice.Config
	ConfigError error
	// Maintenances are those that notices have made for this node.
	Maintenances []*v1alpha1.NodeMaintenance
}

// Look reads it, from the apiserver itself.
func (n *NodeNotices) Look(ctx context.Context) (NoticeView, error) {
	view := NoticeView{Config: notice.Default()}
	node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return view, fmt.Errorf("reading node %s: %w", n.Node, err)
	default:
		facts := NoticeFacts(node)
		view.Node = &facts
	}
	if err := n.config(ctx, &view); err != nil {
		return view, err
	}
	all, err := Maintenances{n.Dynamic}.List(ctx)
	if err != nil {
		return view, fmt.Errorf("listing maintenances: %w", err)
	}
	for _, m := range all {
		names := m.Spec.Nodes.Names
		if _, _, is := notice.Of(m.Spec.Requester); is && len(names) == 1 && names[0] == n.Node {
			view.Maintenances = append(view.Maintenances, m)
		}
	}
	return view, nil
}

func (n *NodeNotices) config(ctx context.Context, view *NoticeView) error {
	written, err := n.Client.CoreV1().ConfigMaps(n.Namespace).Get(ctx, notice.ConfigName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the configuration of notices: %w", err)
	}
	text, is := written.Data[notice.ConfigKey]
	if !is {
		view.ConfigError = configError(written, fmt.Errorf("it has no entry %s", notice.ConfigKey))
		return nil
	}
	config, err := notice.Parse(text)
	if err != nil {
		view.ConfigError = configError(written, err)
		return nil
	}
	view.Config = config
	return nil
}

func configError(of *corev1.ConfigMap, wrong error) error {
	return fmt.Errorf("the configuration of notices, ConfigMap %s/%s, is not used: %w", of.Namespace, of.Name, wrong)
}

// Follow calls seen with a maintenance whenever it has changed, and with nil once that of the UID is gone, until seen returns true.
func (n *NodeNotices) Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.NodeMaintenance) (enough bool)) error {
	return Maintenances{n.Dynamic}.Follow(ctx, name, uid, seen)
}
