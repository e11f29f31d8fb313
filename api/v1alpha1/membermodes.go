package v1alpha1

// DeleteMode says what a caller's DELETE of a governed pod means.
//
// +kubebuilder:validation:Enum=Guard;Allow
type DeleteMode string

// The meanings.
const (
	DeleteGuard DeleteMode = "Guard"
	DeleteAllow DeleteMode = "Allow"
)

// LeavesMode says what of a member leaves a node.
//
// +kubebuilder:validation:Enum=Pod;Load
type LeavesMode string

// The modes.
const (
	LeavesPod  LeavesMode = "Pod"
	LeavesLoad LeavesMode = "Load"
)

// EmptyMode says what has a pod that stays emptied.
//
// +kubebuilder:validation:Enum=Request;Cordon
type EmptyMode string

// The modes.
const (
	EmptyOnRequest EmptyMode = "Request"
	EmptyOnCordon  EmptyMode = "Cordon"
)

// PressureMode says whether a governed pod may be sacrificed when its node runs short.
//
// +kubebuilder:validation:Enum=WhenAllowed;LastResort
type PressureMode string

// The modes.
const (
	PressureWhenAllowed PressureMode = "WhenAllowed"
	PressureLastResort  PressureMode = "LastResort"
)

// TolerationMode says whose tolerations a pod has where its author and its role both have some.
//
// +kubebuilder:validation:Enum=KeepOwn;Override
type TolerationMode string

// The modes.
const (
	TolerationsKeepOwn  TolerationMode = "KeepOwn"
	TolerationsOverride TolerationMode = "Override"
)
