package notice

import "time"

// Source is where a notice comes from. It is the first label of the domain of a maintenance's requester: ec2.notice.usher.sh/SpotInterruption.
type Source string

// The sources on nodes, and those that the manager reads.
const (
	EC2          Source = "ec2"          // the metadata service of AWS, version 2
	GCE          Source = "gce"          // the metadata server of Google Cloud
	Azure        Source = "azure"        // scheduled events of Azure
	Logind       Source = "logind"       // systemd-logind is to shut the machine down
	Kubelet      Source = "kubelet"      // the kubelet shuts down with its machine
	Alertmanager Source = "alertmanager" // an alert
	Condition    Source = "condition"    // a condition of the Node
	Taint        Source = "taint"        // a taint of the Node: autoscalers
	ClusterAPI   Source = "clusterapi"   // the Machine of the Node is deleted
)

// Kind is what is to happen to a node.
type Kind string

// Kinds of notices. What each leads to is the configuration's to say.
const (
	SpotInterruption Kind = "SpotInterruption" // the instance is taken back: stopped, terminated or hibernated
	Rebalance        Kind = "Rebalance"        // it is likelier than before to be interrupted
	Maintenance      Kind = "Maintenance"      // its host is worked on: it is frozen or moves, and goes on
	Reboot           Kind = "Reboot"
	Redeploy         Kind = "Redeploy" // it comes up on another host, without its local disks
	Termination      Kind = "Termination"
	Shutdown         Kind = "Shutdown"
	Problem          Kind = "Problem" // an alert or a condition: nothing takes the node away, but something is wrong with it
	ScaleDown        Kind = "ScaleDown"
)

// Notice is news of one event about one node.
type Notice struct {
	Source Source
	Kind   Kind
	// Event is the source's id of the event, or what makes one where the source gives none. Source, Event and Node identify a notice.
	Event string
	Node  string
	// EffectiveTime is when it happens to the node; zero: not known. Of an event that is reported again the earliest counts.
	EffectiveTime time.Time
	// EndTime is until when the notice stands without being reported again; zero: until it is withdrawn.
	EndTime time.Time
	// Withdrawn: the source has said that the event does not come, or that it is over.
	Withdrawn bool
	// Message is what the source says of it, for people. It is text of another system, and is shown as such.
	Message string
}
