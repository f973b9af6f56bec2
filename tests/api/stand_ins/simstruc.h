/* Declarations of the functions of Simulink that blocks call; theirs are macros. */
#ifndef STAND_IN_SIMSTRUC_H
#define STAND_IN_SIMSTRUC_H
typedef double real_T;
typedef int int_T;
typedef struct SimStruct SimStruct;
#define CONTINUOUS_SAMPLE_TIME 0.0
void ssSetNumSFcnParams(SimStruct *S, int_T count);
void ssSetNumContStates(SimStruct *S, int_T count);
int_T ssSetNumInputPorts(SimStruct *S, int_T count);
void ssSetInputPortWidth(SimStruct *S, int_T port, int_T width);
void ssSetInputPortRequiredContiguous(SimStruct *S, int_T port, int_T required);
void ssSetInputPortDirectFeedThrough(SimStruct *S, int_T port, int_T direct);
int_T ssSetNumOutputPorts(SimStruct *S, int_T count);
void ssSetOutputPortWidth(SimStruct *S, int_T port, int_T width);
void ssSetNumSampleTimes(SimStruct *S, int_T count);
void ssSetSampleTime(SimStruct *S, int_T number, double time);
void ssSetOffsetTime(SimStruct *S, int_T number, double time);
real_T *ssGetContStates(SimStruct *S);
real_T *ssGetdX(SimStruct *S);
real_T ssGetT(SimStruct *S);
const real_T *ssGetInputPortRealSignal(SimStruct *S, int_T port);
real_T *ssGetOutputPortRealSignal(SimStruct *S, int_T port);
#endif
